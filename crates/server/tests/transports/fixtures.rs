//! The fixtures of the SDKs (`sdk/fixtures`), played against a server over each transport.
//!
//! The SDKs answer messages with items. Here it is the other way round: the items of a fixture go to the server, and its
//! messages must equal the fixture's. Events in between (a signal, a settled promise, a child that ends)
//! follows from the next message. A fixture that begins with a log is carried out once, evicted, and then replayed.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::client::{Transport, ask};
use super::support::{PATIENCE, Role, TestServer};
use super::worker::SESSIONS;

/// Fixtures that cannot be played, and why.
const NOT_PLAYED: [(&str, &str); 10] = [
    ("abort", "a server tries a step again that took too long"),
    ("batch", "a server gives an outcome when the code has answered the one before"),
    ("evicted", "a server gives a signal that came meanwhile as `resolved`, not in the log"),
    ("exact_decimals", "its numbers are for SDKs: the server refuses what no 64-bit float holds"),
    ("promise_id", "it is the third generation of a run"),
    ("race_replay", "its log has a branch that lost, whose record is written with the end of the run"),
    ("reload", "only a server that decided otherwise asks for it"),
    ("scope_undo_failed", "a compensation that fails waits for people"),
    ("shield", "a server tells a run to stop when its shield has ended"),
    ("stop", "what is dropped at the end follows from the cancelled attempt"),
];

fn fixtures() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/fixtures");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    files.sort();
    let read =
        files.iter().filter(|path| !is_named(&NOT_PLAYED, path.file_stem().unwrap().to_str().unwrap()));
    read.map(|path| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()).collect()
}

fn is_named(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(listed, _)| *listed == name)
}

#[tokio::test]
async fn the_server_plays_every_fixture_over_http() {
    play_all(Transport::Http).await;
}

#[tokio::test]
async fn the_server_plays_every_fixture_over_grpc() {
    play_all(Transport::Grpc).await;
}

async fn play_all(transport: Transport) {
    let all = fixtures();
    assert!(all.len() > 40, "{} fixtures", all.len());
    let mut failed = Vec::new();
    for case in &all {
        let name = case["name"].as_str().unwrap().to_owned();
        let server = TestServer::memory().await;
        let player = async {
            let mut player = FixtureWorker::open(&server, transport, case).await;
            player.play().await
        };
        match timeout(PATIENCE, player).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => failed.push(format!("{name}: {why}")),
            Err(_) => failed.push(format!("{name}: it hangs")),
        }
    }
    assert!(failed.is_empty(), "{transport:?}: {failed:#?}");
}

/// Over gRPC a promise has the fields of the seed: its timeout is in milliseconds.
fn with_milliseconds(mut item: Value) -> Value {
    if item["do"] == "promise"
        && let Some(timeout) = item.as_object_mut().and_then(|item| item.remove("timeout"))
    {
        let timeout: hapax_api::DurationText = serde_json::from_value(timeout).unwrap();
        item["timeoutMs"] = json!(timeout.0.as_millis() as u64);
    }
    item
}

/// Plays the worker of one fixture.
struct FixtureWorker<'a> {
    server: &'a TestServer,
    transport: Transport,
    key: String,
    session: String,
    case: &'a Value,
    run: String,
    activation: String,
    messages: VecDeque<Value>,
    requests: u64,
    /// Operations by number, and the ids of their steps.
    asked: HashMap<u64, (Value, String)>,
    uses: HashMap<String, u32>,
    /// Operations whose outcome the world has given.
    provoked: Vec<u64>,
    /// Numbers of attempts that the server gave, by operation and kind. Those of probes are its own, and so are those of a
    /// replay: an attempt that was asked for right before the function was forgotten may count.
    numbers: HashMap<(u64, String), Value>,
}

type FixtureResult<T> = Result<T, String>;

impl<'a> FixtureWorker<'a> {
    async fn open(server: &'a TestServer, transport: Transport, case: &'a Value) -> Self {
        let key = server.key("acme", Role::Worker).await;
        let asked = json!({
            "name": "player", "concurrency": 64,
            "workflows": [{ "name": "fixture" }, { "name": "ship" }, { "name": "ship", "version": 2 }],
        });
        let opened = ask(server, transport, "POST", SESSIONS, Some(&asked), &key, &[]).await;
        let session =
            opened.json()["sessionId"].as_str().unwrap_or_else(|| panic!("{}", opened.text())).to_owned();
        FixtureWorker {
            server,
            transport,
            key,
            session,
            case,
            run: String::new(),
            activation: String::new(),
            messages: VecDeque::new(),
            requests: 0,
            asked: HashMap::new(),
            uses: HashMap::new(),
            provoked: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    async fn play(&mut self) -> FixtureResult<()> {
        let input = &self.case["input"];
        let input = if input.is_object() { input.clone() } else { json!({ "of": input }) };
        let asked = json!({ "workflow": "fixture", "input": input });
        let admin = self.server.admin.clone();
        let started =
            ask(self.server, self.transport, "POST", "/api/v1/workflow-runs", Some(&asked), &admin, &[])
                .await;
        self.run = started.json()["run"]["id"].as_str().ok_or_else(|| started.text())?.to_owned();
        let turns = self.case["turns"].as_array().unwrap();
        let log = log_of(&turns[0]);
        if !log.is_empty() {
            self.activate(None).await?;
            self.live_through(turns, &log).await?;
            self.begin_anew();
        }
        for turn in turns {
            for message in told(turn) {
                self.expect(message).await?;
            }
            let items = self.real(&turn["items"]);
            self.note(&items);
            if !items.is_empty() {
                self.commit(items).await?;
            }
        }
        self.check_end(turns).await
    }

    /// The run is where the last item of the fixture left it.
    async fn check_end(&mut self, turns: &[Value]) -> FixtureResult<()> {
        let items = turns.iter().flat_map(|turn| self.real(&turn["items"]));
        let Some(last) = items.last() else { return Ok(()) };
        let (status, member, value) = match &last {
            item if item["return"] != Value::Null => ("COMPLETED", "output", item["return"].clone()),
            item if item["throw"] != Value::Null => ("FAILED", "failure", item["throw"].clone()),
            item if item["violation"] != Value::Null => ("PAUSED", "", Value::Null),
            _ => return Ok(()),
        };
        let ended = self.server.until(&self.run, status).await;
        match member.is_empty() || covers(&ended["run"][member], &value) {
            true => Ok(()),
            false => Err(format!("the run ended with {}, not with {value}", ended["run"])),
        }
    }

    /// Carries out what the log records, then forgets the function.
    async fn live_through(&mut self, turns: &[Value], log: &[Value]) -> FixtureResult<()> {
        let mut batch = Vec::new();
        'turns: for (place, turn) in turns.iter().enumerate() {
            if place > 0 && log.iter().all(|record| self.is_lived(record)) {
                break;
            }
            for message in told(turn).filter(|message| message["type"] == "resolved") {
                let op = message["op"].as_u64().unwrap();
                let is_scope = self.asked.get(&op).is_some_and(|(item, _)| item["do"] == "scope");
                let Some(outcome) = self.recorded(op, log).or(is_scope.then(|| message.clone())) else {
                    break 'turns;
                };
                if log.iter().all(|record| self.is_lived(record)) {
                    break 'turns;
                }
                self.settle(&mut batch, op, &outcome).await?;
            }
            let mut items = self.real(&turn["items"]);
            if items.iter().any(|item| item["violation"].is_string()) {
                items = log.iter().enumerate().map(|(place, record)| asking(place + 1, record)).collect();
                let taken = (1..=items.len())
                    .zip(log)
                    .filter(|(_, record)| has_outcome(record) && record["kind"] != "value");
                let taken: Vec<Value> = taken.map(|(op, _)| json!({ "took": op })).collect();
                items.extend(taken);
            }
            for item in items {
                let is_end = ["return", "throw", "continueAsNew"].iter().any(|end| item.get(end).is_some());
                let closes_failed = item["closeScope"].is_number() && item["failure"].is_object();
                if is_end || (closes_failed && log.iter().all(|record| self.is_lived(record))) {
                    break 'turns;
                }
                self.note(std::slice::from_ref(&item));
                let asks = item["op"].as_u64().and_then(|op| self.asked.get(&op));
                let is_recorded = |id: &str| log.iter().any(|record| record["id"] == id);
                if asks.is_some_and(|(_, id)| !is_recorded(id))
                    && log.iter().all(|record| self.is_lived(record))
                {
                    break 'turns;
                }
                if let Some(op) = item["took"].as_u64()
                    && let Some(outcome) = self.recorded(op, log)
                {
                    self.settle(&mut batch, op, &outcome).await?;
                }
                batch.push(item);
            }
        }
        // A step that is open in the log was begun.
        let open: Vec<u64> =
            self.asked.iter().filter(|(_, (_, id))| is_begun(log, id)).map(|(op, _)| *op).collect();
        for op in open {
            self.commit(std::mem::take(&mut batch)).await?;
            self.await_message(&json!({ "type": "attempt", "op": op, "do": "effect" })).await?;
        }
        batch.push(json!({ "evicted": true }));
        self.commit(batch).await?;
        // A function that was forgotten is called again when there is something for its run.
        self.signal("nudge", json!(null)).await
    }

    fn is_lived(&self, record: &Value) -> bool {
        let is_it = |op: &u64| self.asked.get(op).is_some_and(|(_, id)| record["id"] == id.as_str());
        !has_outcome(record) || record["kind"] == "value" || self.provoked.iter().any(is_it)
    }

    /// Hands in what was collected, has the world give an operation its outcome, and waits until the server says so.
    async fn settle(&mut self, batch: &mut Vec<Value>, op: u64, outcome: &Value) -> FixtureResult<()> {
        if self.provoked.contains(&op) {
            return Ok(());
        }
        self.commit(std::mem::take(batch)).await?;
        self.provoke(op, outcome).await?;
        let wanted = json!({ "type": "resolved", "op": op });
        self.await_message(&wanted).await.map(drop)
    }

    fn recorded(&self, op: u64, log: &[Value]) -> Option<Value> {
        let (_, id) = self.asked.get(&op)?;
        log.iter().find(|record| record["id"] == id.as_str() && has_outcome(record)).cloned()
    }

    fn begin_anew(&mut self) {
        self.asked.clear();
        self.uses.clear();
        self.messages.retain(|message| message["type"] == "activate");
    }

    /// Sees to it that a message comes, and waits for it.
    async fn expect(&mut self, message: &Value) -> FixtureResult<()> {
        let wanted = self.real_value(message);
        let op = wanted["op"].as_u64().unwrap_or_default();
        match wanted["type"].as_str().unwrap() {
            "ended" | "evict" => return Ok(()),
            "activate" => {
                let log = wanted["log"].as_array().cloned().unwrap_or_default();
                for open in self.open_in(&log) {
                    let record = self.recorded(open, &log).expect("it was found by its record");
                    self.provoke(open, &record).await?;
                }
                return self.activate(Some(&log)).await;
            }
            "resolved" if !self.provoked.contains(&op) => self.provoke(op, &wanted).await?,
            "stop" => {
                let path = format!("/api/v1/workflow-runs/{}/cancel", self.run);
                let admin = self.server.admin.clone();
                ask(self.server, self.transport, "POST", &path, Some(&json!({})), &admin, &[]).await;
            }
            _ => {}
        }
        let message = self.await_message(&wanted).await?;
        if message["type"] == "attempt" {
            let kind = message["do"].as_str().unwrap().to_owned();
            self.numbers.insert((op, kind), message["attempt"].clone());
        }
        Ok(())
    }

    /// Operations of this session that wait for what the log records.
    fn open_in(&self, log: &[Value]) -> Vec<u64> {
        let is_open = |op: &&u64| !self.provoked.contains(*op) && self.recorded(**op, log).is_some();
        self.asked.keys().filter(is_open).copied().collect()
    }

    /// The world gives an operation its outcome.
    async fn provoke(&mut self, op: u64, outcome: &Value) -> FixtureResult<()> {
        self.provoked.push(op);
        let Some((item, id)) = self.asked.get(&op).cloned() else {
            return Err(format!("operation {op} was never asked for"));
        };
        let output = outcome["output"].clone();
        match item["do"].as_str().unwrap() {
            "step" if self.attempts(op, "effect") && self.is_doubted(op) => self.rule(output).await,
            "step" if self.attempts(op, "effect") => Ok(()),
            "step" => {
                let attempt =
                    self.await_message(&json!({ "type": "attempt", "op": op, "do": "effect" })).await?;
                let mut ended = json!({ "outcome": op, "attempt": attempt["attempt"] });
                let (name, value) = match outcome.get("failure") {
                    Some(failure) => ("failure", failure.clone()),
                    None => ("output", output),
                };
                ended[name] = value;
                self.commit(vec![ended]).await
            }
            "scope" => self.undo(op, outcome["failure"]["code"] == "undo_failed").await,
            "promise" => self.settle_promise(&format!("{}:{id}", self.run), outcome).await,
            "awaitPromise" => {
                let made = json!({ "id": item["id"] });
                let admin = self.server.admin.clone();
                ask(self.server, self.transport, "POST", "/api/v1/promises", Some(&made), &admin, &[]).await;
                self.settle_promise(item["id"].as_str().unwrap(), outcome).await
            }
            "signal" => self.signal(item["name"].as_str().unwrap(), output).await,
            "child" => {
                let parent = self.run.clone();
                let child = self.wait("the child", move |message| {
                    message["type"] == "activate" && message["run"] != parent.as_str()
                });
                let child = child.await?;
                let items = vec![json!({ "return": output })];
                self.commit_of(child["run"].as_str().unwrap(), child["activation"].as_str().unwrap(), items)
                    .await
            }
            _ => Ok(()),
        }
    }

    /// Does the fixture carry out an attempt by itself?
    fn attempts(&self, op: u64, what: &str) -> bool {
        let turns = self.case["turns"].as_array().unwrap();
        let is_it =
            |message: &Value| message["type"] == "attempt" && message["op"] == op && message["do"] == what;
        turns.iter().flat_map(told).any(is_it)
    }

    /// Is the outcome of a claimed step without a probe unknown?
    fn is_doubted(&self, op: u64) -> bool {
        let (item, _) = &self.asked[&op];
        let turns = self.case["turns"].as_array().unwrap();
        let mut items = turns.iter().flat_map(|turn| turn["items"].as_array().unwrap());
        let is_unknown = items.any(|item| item["outcome"] == op && item["failure"]["class"] == "unknown");
        item["claimed"] == true && item["probe"] != true && is_unknown
    }

    /// A person rules that the effect happened.
    async fn rule(&self, output: Value) -> FixtureResult<()> {
        let doubt =
            self.server.until_shown("/api/v1/doubts", |shown| shown["items"][0].is_object()).await["items"]
                [0]
            .clone();
        let ruling = json!({ "resolution": "happened", "output": output, "reason": "seen", "version": doubt["version"] });
        let path = format!("/api/v1/doubts/{}/{}/resolve", self.run, doubt["stepId"].as_str().unwrap());
        let answer = self.server.post(&path, &ruling, &[]).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    }

    async fn undo(&mut self, op: u64, fails: bool) -> FixtureResult<()> {
        loop {
            let wanted = |message: &Value| {
                (message["type"] == "attempt" && message["do"] == "undo")
                    || (message["type"] == "resolved" && message["op"] == op)
            };
            let message = self.wait("an undo", wanted).await?;
            if message["type"] == "resolved" {
                self.messages.push_front(message);
                return Ok(());
            }
            // The fixture undoes it by itself.
            if self.attempts(message["op"].as_u64().unwrap(), "undo") {
                self.messages.push_front(message);
                return Ok(());
            }
            let mut ended = json!({ "outcome": message["op"], "attempt": message["attempt"], "do": "undo" });
            match fails {
                true => ended["failure"] = json!({ "message": "no", "class": "permanent" }),
                false => ended["output"] = Value::Null,
            }
            self.commit(vec![ended]).await?;
        }
    }

    async fn signal(&self, name: &str, value: Value) -> FixtureResult<()> {
        let path = format!("/api/v1/workflow-runs/{}/signals", self.run);
        let body = json!({ "name": name, "value": value });
        self.changed("POST", &path, &body).await
    }

    async fn settle_promise(&self, id: &str, outcome: &Value) -> FixtureResult<()> {
        let (verb, body) = match outcome.get("failure") {
            Some(failure) => ("reject", json!({ "message": failure["message"], "code": failure["code"] })),
            None => ("resolve", json!({ "value": outcome["output"] })),
        };
        self.changed("POST", &format!("/api/v1/promises/id:{id}/{verb}"), &body).await
    }

    /// Asks as the admin until it is done: what it is about may be on its way.
    async fn changed(&self, verb: &str, path: &str, body: &Value) -> FixtureResult<()> {
        let (since, admin) = (Instant::now(), self.server.admin.clone());
        loop {
            let answer = ask(self.server, self.transport, verb, path, Some(body), &admin, &[]).await;
            if answer.status < 300 {
                return Ok(());
            }
            if answer.status != 404 || since.elapsed() > PATIENCE / 4 {
                return Err(format!("{verb} {path}: {}", answer.text()));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the function is called, and checks the log.
    async fn activate(&mut self, log: Option<&[Value]>) -> FixtureResult<()> {
        let (run, before) = (self.run.clone(), self.activation.clone());
        let fits = move |message: &Value| {
            message["type"] == "activate"
                && message["run"] == run.as_str()
                && message["activation"] != before.as_str()
        };
        let message = self.wait("activate", fits).await?;
        self.activation = message["activation"].as_str().unwrap().to_owned();
        let Some(log) = log else { return Ok(()) };
        let given = message["log"].as_array().cloned().unwrap_or_default();
        let outcomes = |log: &[Value]| -> Vec<Value> {
            log.iter().filter(|record| has_outcome(record)).cloned().collect()
        };
        let (given, wanted) = (outcomes(&given), outcomes(log));
        match given.len() == wanted.len()
            && given.iter().zip(&wanted).all(|(given, wanted)| covers(given, &self.real_value(wanted)))
        {
            true => Ok(()),
            false => Err(format!("the log is {}, not {}", json!(given), json!(wanted))),
        }
    }

    async fn await_message(&mut self, wanted: &Value) -> FixtureResult<Value> {
        let activation = self.activation.clone();
        let wanted = wanted.clone();
        let what = wanted.to_string();
        let is_replayed = self.is_replayed();
        let fits = move |message: &Value| {
            message["activation"] == activation.as_str() && fits_fixture(message, &wanted, is_replayed)
        };
        self.wait(&what, fits).await
    }

    async fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> FixtureResult<Value> {
        let since = Instant::now();
        loop {
            if let Some(place) = self.messages.iter().position(&fits) {
                return Ok(self.messages.remove(place).unwrap());
            }
            if since.elapsed() > PATIENCE / 4 {
                return Err(format!("no {what}, but {:?}", self.messages));
            }
            self.requests += 1;
            let asked = json!({ "sequence": self.requests, "free": 64 });
            self.send("poll", &asked).await?;
        }
    }

    async fn commit(&mut self, items: Vec<Value>) -> FixtureResult<()> {
        if items.is_empty() {
            return Ok(());
        }
        let (run, activation) = (self.run.clone(), self.activation.clone());
        self.commit_of(&run, &activation, items).await
    }

    async fn commit_of(&mut self, run: &str, activation: &str, items: Vec<Value>) -> FixtureResult<()> {
        self.requests += 1;
        let items: Vec<Value> = match self.transport {
            Transport::Http => items,
            Transport::Grpc => items.into_iter().map(with_milliseconds).collect(),
        };
        let run = json!({ "run": run, "activation": activation, "items": items });
        let asked = json!({ "sequence": self.requests, "free": 64, "runs": [run] });
        self.send("commit", &asked).await
    }

    async fn send(&mut self, verb: &str, asked: &Value) -> FixtureResult<()> {
        let path = format!("{SESSIONS}/{}/{verb}", self.session);
        let answer = ask(self.server, self.transport, "POST", &path, Some(asked), &self.key, &[]).await;
        let messages = answer.json()["messages"].as_array().cloned().ok_or_else(|| answer.text())?;
        let is_refused = |message: &&Value| {
            let detail = message["problem"]["detail"].as_str();
            // A violation that the fixture itself reports is expected.
            detail.is_some_and(|detail| !detail.starts_with("DeterminismViolation"))
        };
        if let Some(refused) = messages.iter().find(is_refused) {
            return Err(format!("{asked} was refused: {refused}"));
        }
        self.messages.extend(messages);
        Ok(())
    }

    /// Notes the operations that items ask for.
    fn note(&mut self, items: &[Value]) {
        for item in items.iter().filter(|item| item["op"].is_u64() && item["do"].is_string()) {
            let (op, kind) = (item["op"].as_u64().unwrap(), item["do"].as_str().unwrap());
            if self.asked.contains_key(&op) {
                continue;
            }
            let text = |name: &str| item[name].as_str().map(str::to_owned);
            let bare = |workflow: String| workflow.split('@').next().unwrap().to_owned();
            let name = match kind {
                "signal" => text("as").or_else(|| text("name")),
                "child" => text("as").or_else(|| text("workflow").map(bare)),
                "afterEffect" => text("target"),
                "awaitPromise" => Some("promise".into()),
                "scope" | "shield" => Some(format!("~{op}")),
                kind => text("name").or(Some(kind.to_owned())),
            };
            let name = name.unwrap();
            let uses = self.uses.entry(name.clone()).or_default();
            *uses += 1;
            let id = if *uses == 1 { name } else { format!("{name}#{uses}") };
            self.asked.insert(op, (item.clone(), id));
        }
    }

    /// Items of a fixture as this run sends them.
    fn real(&self, items: &Value) -> Vec<Value> {
        let items = items.as_array().unwrap().iter();
        items
            .map(|item| match item["violation"].as_array() {
                Some(names) => json!({ "violation": json!(names).to_string() }),
                None => self.numbered(self.shorten(self.real_value(item))),
            })
            .collect()
    }

    /// The same value, about this run.
    fn real_value(&self, value: &Value) -> Value {
        serde_json::from_str(&value.to_string().replace("run_1", &self.run)).unwrap()
    }

    /// The outcome of the attempt that the server asked for.
    fn numbered(&self, mut item: Value) -> Value {
        let is_probe = item["answer"].is_string();
        let kind = item["do"].as_str().unwrap_or(if is_probe { "probe" } else { "effect" });
        if let Some(op) = item["outcome"].as_u64()
            && (kind == "probe" || self.is_replayed())
            && let Some(number) = self.numbers.get(&(op, kind.to_owned()))
        {
            item["attempt"] = number.clone();
        }
        item
    }

    fn is_replayed(&self) -> bool {
        !log_of(&self.case["turns"][0]).is_empty()
    }

    /// Waits that the test can wait for.
    fn shorten(&self, mut item: Value) -> Value {
        let times_out = self.case["name"] == "abort";
        // A day is for what loses.
        if item["do"] == "sleep" && item["for"] != "1d" {
            item.as_object_mut().unwrap().remove("until");
            item["for"] = json!("5ms");
        }
        if times_out && item["timeout"].is_string() {
            item["timeout"] = json!("50ms");
        }
        if item["retry"]["first"].is_string() {
            item["retry"]["first"] = json!("1ms");
        }
        if item["failure"]["retryAfter"].is_string() {
            item["failure"]["retryAfter"] = json!("1ms");
        }
        item
    }
}

fn told(turn: &Value) -> impl Iterator<Item = &Value> {
    let several = turn["in"].as_array();
    several.into_iter().flatten().chain(several.is_none().then_some(&turn["in"]))
}

fn log_of(turn: &Value) -> Vec<Value> {
    told(turn).flat_map(|message| message["log"].as_array().cloned().unwrap_or_default()).collect()
}

fn is_begun(log: &[Value], id: &str) -> bool {
    log.iter().any(|record| record["id"] == id && record["kind"] == "step" && record["status"] == "RUNNING")
}

fn has_outcome(record: &Value) -> bool {
    record["status"] == "COMPLETED" || record["status"] == "FAILED"
}

/// Item that asks for the operation of a record.
fn asking(op: usize, record: &Value) -> Value {
    let name = record["id"].as_str().unwrap().split('#').next().unwrap();
    let mut item = json!({ "op": op, "do": record["kind"], "name": name });
    match record["kind"].as_str().unwrap() {
        "sleep" => item["for"] = json!("5ms"),
        "value" => item["value"] = record["output"].clone(),
        _ => {}
    }
    item
}

/// Does a message of the server say what the fixture says? Numbers of fences and times are its own.
fn fits_fixture(message: &Value, wanted: &Value, is_replayed: bool) -> bool {
    let has_own_numbers = is_replayed || wanted["do"] == "probe";
    let of_server = |name: &str| {
        ["fence", "activation", "timeout"].contains(&name) || (has_own_numbers && name == "attempt")
    };
    let members = wanted.as_object().unwrap().iter().filter(|(name, _)| !of_server(name));
    members.into_iter().all(|(name, wanted)| covers(&message[name], wanted))
}

/// Has the value everything that is wanted? Texts of failures are the server's.
fn covers(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            let is_failure = wanted.contains_key("message") && wanted.contains_key("class");
            wanted
                .iter()
                .filter(|(name, _)| !(is_failure && *name == "message"))
                .all(|(name, wanted)| covers(&value.get(name).cloned().unwrap_or_default(), wanted))
        }
        (value, wanted) => value == wanted,
    }
}

#[test]
fn what_is_not_played_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/fixtures");
    for (name, why) in NOT_PLAYED {
        assert!(folder.join(format!("{name}.json")).exists() && !why.is_empty(), "{name}");
    }
}
