//! Every kind of step, from start to end, on the memory store.

use std::time::Duration;

use crate::support::{Running, World, answer, checked, steps};
use hapax_documents::approval_signal;
use hapax_engine::Failure;
use hapax_engine::model::{RunStatus, StepState, StepStatus};
use serde_json::{Value, json};

/// S0.32, S0.42: the input does not change, and each output is merged shallowly into the state.
#[tokio::test]
async fn outputs_are_merged_into_the_state_and_the_input_stays() {
    let world = World::default();
    let document = steps(json!([
        { "name": "one", "type": "task", "task": "echo", "input": { "a": { "x": 1 }, "b": 1 } },
        { "name": "two", "type": "task", "task": "echo", "input": { "a": { "y": "{{ state.b + 1 }}" }, "input": "mine" } },
        { "name": "three", "type": "task", "task": "echo", "input": "{{ [input.n, state.b] }}", "output": "{{ result }}" },
        { "name": "four", "type": "task", "task": "echo", "input": { "c": "{{ steps.three.output }}", "n": "{{ input.n }}" } },
    ]));
    let running = Running::start(document, world.echo(), json!({ "n": 7 })).await;
    let output = running.output().await;
    assert_eq!(output, json!({ "a": { "y": 2 }, "b": 1, "c": [7, 1], "n": 7, "input": "mine" }));
    running.check().await;
}

/// S0.22, S0.24, S0.31, S0.34, S0.40: each step adds two versions, and ends one version after its start.
#[tokio::test]
async fn each_step_raises_the_version_twice() {
    let world = World::default();
    let document = steps(json!([
        { "name": "one", "type": "task", "task": "a" },
        { "name": "two", "type": "http", "method": "GET", "url": "https://x/" },
        { "name": "three", "type": "task", "task": "b", "effect": "claimed" },
    ]));
    let running = Running::start(document, world.echo(), json!({})).await;
    running.output().await;
    let log = running.lab.engine().get_log(running.run.id()).await.unwrap();
    let mut before = 1;
    for step in &log.steps {
        assert_eq!(step.started_version.get(), before + 1, "{} begins", step.id);
        assert_eq!(step.changed_version.get(), before + 2, "{} ends", step.id);
        before += 2;
    }
    assert_eq!(log.head.version.get(), before + 1, "and the end of the run is one more");
    assert_eq!(log.steps.len(), 3);
    running.check().await;
}

/// S0.35, S0.36, S0.37: after a crash a completed step does not run again, and the run continues with the next.
#[tokio::test]
async fn a_step_that_is_done_is_not_run_again() {
    let world = World::default();
    let document = steps(json!([
        { "name": "one", "type": "task", "task": "a" },
        { "name": "skipped", "type": "task", "task": "never", "when": "input.n > 100" },
        { "name": "hold", "type": "wait", "for": "1h" },
        { "name": "two", "type": "task", "task": "b" },
    ]));
    let mut running = Running::start(document, world.echo(), json!({ "n": 7 })).await;
    running.lab.idle().await;
    assert_eq!(world.names(), ["a"]);
    running.lab.crash();
    hapax_documents::register(running.lab.engine(), running.document.clone(), running.services.clone())
        .unwrap();
    assert_eq!(running.settle().await, RunStatus::Completed);
    assert_eq!(world.names(), ["a", "b"]);
    assert_eq!(running.status_of("skipped").await, StepStatus::Skipped);
    running.check().await;
}

#[tokio::test]
async fn waits_wait_for_as_long_as_they_say() {
    let world = World::default();
    let document = steps(json!([
        { "name": "cool-down", "type": "wait", "for": "2h" },
        { "name": "later", "type": "wait", "until": "{{ input.at }}" },
        { "name": "stamp", "type": "wait", "until": "{{ input.stamp }}" },
        { "name": "done", "type": "task", "task": "a" },
    ]));
    let hours = |hours: u64| {
        hapax_engine::testing::TestEnvironment::new().now().plus(Duration::from_secs(hours * 3600))
    };
    let input = json!({ "at": hours(24).to_string(), "stamp": hours(48).as_millis() });
    let running = Running::start(document, world.echo(), input).await;
    running.output().await;
    let log = running.lab.engine().get_log(running.run.id()).await.unwrap();
    let began_at = |name: &str| log.steps.iter().find(|step| step.id.as_str() == name).unwrap().started_at;
    assert!(began_at("later") >= hours(2));
    assert!(began_at("stamp") >= hours(24));
    assert!(began_at("done") >= hours(48));
    running.check().await;
    let document = steps(json!([{ "name": "later", "type": "wait", "until": "{{ input.at }}" }]));
    let running = Running::start(document, world.echo(), json!({ "at": "tomorrow" })).await;
    assert_eq!(running.failed_with().await, "bad_time");
    assert_eq!(running.status_of("later").await, StepStatus::Failed);
}

/// S0.36, S0.41: the branch not taken is SKIPPED, with all its steps.
#[tokio::test]
async fn a_condition_takes_one_way_and_passes_over_the_other() {
    let fork = json!([
        { "name": "fork", "type": "condition", "if": "input.n > 5",
          "then": [{ "name": "big", "type": "task", "task": "big", "input": { "size": "big" } }],
          "else": [
            { "name": "small", "type": "task", "task": "small", "input": { "size": "small" } },
            { "name": "inner", "type": "parallel", "branches": [[{ "name": "deep", "type": "task", "task": "deep" }]] },
          ] },
        { "name": "last", "type": "task", "task": "last", "input": { "way": "{{ steps.fork.output }}", "was": "{{ steps.small.skipped }}" } },
    ]);
    for (n, names, skipped, output) in [
        (
            7,
            vec!["big", "last"],
            vec!["small", "inner", "deep"],
            json!({ "size": "big", "way": "then", "was": true }),
        ),
        (
            1,
            vec!["small", "deep", "last"],
            vec!["big"],
            json!({ "size": "small", "way": "else", "was": false }),
        ),
    ] {
        let world = World::default();
        let running = Running::start(steps(fork.clone()), world.echo(), json!({ "n": n })).await;
        assert_eq!(running.output().await, output);
        assert_eq!(world.names(), names);
        for step in skipped {
            assert_eq!(running.status_of(step).await, StepStatus::Skipped, "{step}");
        }
        running.check().await;
    }
}

#[tokio::test]
async fn a_promise_and_a_signal_are_waited_for() {
    let world = World::default();
    let document = steps(json!([
        { "name": "paid", "type": "promise", "timeout": "3d", "output": { "payment": "{{ result }}" } },
        { "name": "told", "type": "signal", "signal": "go", "timeout": "1d" },
    ]));
    let running = Running::start(document, world.echo(), json!({})).await;
    running.lab.idle().await;
    let engine = running.lab.engine();
    engine.signal(running.run.id(), "go", &json!({ "by": "ada" }), None).await.unwrap();
    engine.resolve_promise(&format!("{}:paid", running.run.id()), &json!({ "id": "p_1" })).await.unwrap();
    assert_eq!(running.output().await, json!({ "payment": { "id": "p_1" }, "by": "ada" }));
    assert_eq!(running.status_of("told").await, StepStatus::Completed);
    running.check().await;
    for kind in ["promise", "signal"] {
        let document = steps(json!([{ "name": "waits", "type": kind, "timeout": "1h" }]));
        let running = Running::start(document, world.echo(), json!({})).await;
        assert_eq!(running.failed_with().await, "timed_out");
        assert_eq!(running.status_of("waits").await, StepStatus::Failed);
    }
}

/// S4.6, G4.1: the key is built from the output of an earlier step. A caller that knows only the key can settle the promise, even before it exists.
#[tokio::test]
async fn a_promise_is_settled_by_what_the_provider_calls_it() {
    let world = World::default();
    let charge = json!({ "name": "charge", "type": "task", "task": "echo", "input": { "id": "ch_1" } });
    let rest = json!({ "name": "rest", "type": "wait", "for": "1h" });
    let paid = json!({
        "name": "paid", "type": "promise", "timeout": "3d", "key": "stripe:{{ steps.charge.output.id }}", "keyTtl": "7d",
    });
    // While the run waits before that step, the promise does not exist yet.
    for document in [json!([charge, paid]), json!([charge, rest, paid])] {
        let running = Running::start(steps(document), world.echo(), json!({})).await;
        running.lab.idle().await;
        let settled = running.lab.engine().resolve_by_key("stripe:ch_1", &json!({ "amount": 5 })).await;
        settled.unwrap();
        assert_eq!(running.output().await["amount"], 5);
        running.check().await;
    }
}

/// S4.26, G4.5: a key that belongs to another promise fails the step, so that people see it.
#[tokio::test]
async fn a_key_that_names_another_promise_fails_the_step() {
    let world = World::default();
    let document = steps(json!([{
        "name": "both", "type": "parallel", "branches": [
            [{ "name": "one", "type": "promise", "timeout": "1d", "key": "{{ input.key }}" }],
            [{ "name": "other", "type": "promise", "timeout": "1d", "key": "{{ input.key }}" }],
        ],
    }]));
    let running = Running::start(document.clone(), world.echo(), json!({ "key": "order/7" })).await;
    running.lab.idle().await;
    let log = running.lab.engine().get_log(running.run.id()).await.unwrap();
    let other = log.steps.iter().find(|step| step.id.as_str() == "other").unwrap();
    let StepState::Failed { failure, .. } = &other.state else { panic!("{:?}", other.state) };
    let holder = format!("{}:one", running.run.id());
    assert_eq!((failure.code(), failure.existing_promise()), (Some("key_conflict"), Some(holder.as_str())));
    for (key, code) in [(json!(""), "bad_key"), (json!("caf\u{e9}"), "bad_key"), (json!(["a"]), "bad_key")] {
        let running = Running::start(document.clone(), world.echo(), json!({ "key": key })).await;
        assert_eq!(running.failed_with().await, code, "{key}");
        assert_eq!(running.status_of("one").await, StepStatus::Failed, "{key}");
    }
}

#[tokio::test]
async fn an_approval_waits_for_an_answer_that_counts() {
    let approval = |more: Value| {
        let mut step = json!({
            "name": "sign-off", "type": "approval", "by": { "roles": ["manager"] }, "decisions": ["approve", "reject", "edit"],
            "fields": ["cents"], "timeout": "2d", "show": { "cents": "{{ input.cents }}" },
        });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        steps(json!([step]))
    };
    let world = World::default();
    let manager = json!({ "requester": "mia", "roles": ["manager"] });
    let running = Running::start(approval(json!({})), world.echo(), json!({ "cents": 5 })).await;
    running.lab.idle().await;
    let (engine, run) = (running.lab.engine(), running.run.id());
    let signal = approval_signal("sign-off");
    for refused in [json!({ "decision": "approve", "by": { "roles": ["viewer"] } }), json!("yes")] {
        engine.signal(run, &signal, &refused, None).await.unwrap();
        running.lab.idle().await;
        assert!(!running.run.view().await.unwrap().head.status().is_closed(), "{refused} does not count");
    }
    let edit = json!({ "decision": "edit", "by": manager, "value": { "cents": 3 }, "comment": "too much" });
    engine.signal(run, &signal, &edit, None).await.unwrap();
    assert_eq!(running.output().await, edit);
    let log = engine.get_log(run).await.unwrap();
    let asked = log
        .steps
        .iter()
        .find(|step| step.id.as_str() == "sign-off.asked")
        .expect("what was asked is on record");
    assert!(format!("{:?}", asked.state).contains("Completed"));
    running.check().await;
    // A rejection fails the run, unless the document continues.
    let reject = json!({ "decision": "reject", "by": manager, "comment": "no" });
    for (more, ends) in [(json!({}), "rejected"), (json!({ "onReject": "continue" }), "")] {
        let running = Running::start(approval(more), world.echo(), json!({ "cents": 5 })).await;
        running.lab.idle().await;
        running.lab.engine().signal(running.run.id(), &signal, &reject, None).await.unwrap();
        match ends {
            "" => assert_eq!(running.output().await, reject),
            code => assert_eq!(running.failed_with().await, code),
        }
    }
    // The timeout counts from the question. Answers that do not count do not extend it.
    let running =
        Running::start(approval(json!({ "onTimeout": "continue" })), world.echo(), json!({ "cents": 5 }))
            .await;
    running.lab.advance(Duration::from_secs(36 * 3600)).await;
    running.lab.engine().signal(running.run.id(), &signal, &json!("yes"), None).await.unwrap();
    running.lab.advance(Duration::from_secs(13 * 3600)).await;
    running.lab.idle().await;
    assert_eq!(running.run.view().await.unwrap().head.status(), RunStatus::Completed);
    assert_eq!(running.output().await, json!({ "decision": "timed_out" }));
    running.check().await;
}

#[tokio::test]
async fn a_child_is_run_and_gives_what_it_gives() {
    let world = World::default();
    let child = checked(
        &json!({ "name": "double", "version": 1, "output": { "twice": "{{ input.n * 2 }}" },
            "steps": [{ "name": "a", "type": "task", "task": "in-child" }] })
        .to_string(),
    );
    let document = steps(json!([
        { "name": "first", "type": "child", "workflow": "double", "input": { "n": "{{ input.n }}" } },
        { "name": "second", "type": "child", "workflow": "double", "input": { "n": "{{ state.twice }}" }, "output": { "four": "{{ result.twice }}" } },
    ]));
    let running = Running::start(document, world.echo(), json!({ "n": 7 })).await;
    hapax_documents::register(running.lab.engine(), child, running.services.clone()).unwrap();
    let status = running.settle().await;
    if status == RunStatus::Failed {
        // The child was not registered in time; a person retries the run.
        running.run.retry(None).await.unwrap();
    }
    assert_eq!(running.output().await, json!({ "twice": 14, "four": 28 }));
    assert_eq!(world.count("in-child"), 2);
    running.check().await;
}

#[tokio::test]
async fn branches_go_side_by_side_and_are_merged_in_their_own_order() {
    let document = steps(json!([
        { "name": "both", "type": "parallel", "branches": [
            [{ "name": "slow", "type": "wait", "for": "1h" }, { "name": "a", "type": "task", "task": "a", "input": { "who": "a", "a": 1 } }],
            [{ "name": "b", "type": "task", "task": "b", "input": { "who": "b", "b": "{{ has(state.a) }}" } }],
        ] },
        { "name": "last", "type": "task", "task": "last", "input": { "seen": "{{ steps.a.output.a + 1 }}" } },
    ]));
    let world = World::default();
    let running = Running::start(document, world.echo(), json!({})).await;
    assert_eq!(running.output().await, json!({ "who": "b", "a": 1, "b": false, "seen": 2 }));
    assert_eq!(world.names(), ["b", "a", "last"], "the slow branch does not hold up the other");
    running.check().await;
}

#[tokio::test]
async fn a_failed_branch_lets_the_others_end_and_then_fails_the_run() {
    let document = steps(json!([
        { "name": "both", "type": "parallel", "branches": [
            [{ "name": "a", "type": "task", "task": "bad" }],
            [{ "name": "b1", "type": "task", "task": "b1", "compensate": { "type": "task", "task": "undo-b1" } }, { "name": "b2", "type": "task", "task": "b2" }],
        ] },
    ]));
    let world = World::default();
    let services = world.services(
        |call, _| match call.name.as_str() {
            "bad" => Err(Failure::permanent("no").with_code("bad")),
            _ => Ok(json!({})),
        },
        |_, _| answer(200, json!({})),
    );
    let running = Running::start(document, services, json!({})).await;
    assert_eq!(running.failed_with().await, "bad");
    assert_eq!(world.names(), ["bad", "b1", "b2", "undo-b1"]);
    running.check().await;
}

#[tokio::test]
async fn a_loop_does_the_same_for_each_item_a_few_at_a_time() {
    let document = steps(json!([
        { "name": "each", "type": "for_each", "items": "{{ input.items }}", "concurrency": 2,
          "result": { "id": "{{ item.id }}", "n": "{{ index }}", "got": "{{ state.got }}" },
          "steps": [
            { "name": "work", "type": "task", "task": "work", "input": { "got": "{{ item.id * 10 }}" } },
            { "name": "pause", "type": "wait", "for": "1m", "when": "item.id == 2" },
          ] },
        { "name": "none", "type": "for_each", "items": [], "steps": [{ "name": "never", "type": "task", "task": "never" }] },
    ]));
    let world = World::default();
    let items = json!({ "items": [{ "id": 1 }, { "id": 2 }, { "id": 3 }] });
    let running = Running::start(document, world.echo(), items).await;
    running.output().await;
    let records = running.records().await;
    let names: Vec<&str> = records.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["work.0", "work.1", "work.2", "pause.0", "pause.1", "pause.2"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let keys: Vec<String> = world.asked().into_iter().map(|asked| asked.key).collect();
    let run = running.run.id();
    assert_eq!(keys, [format!("{run}:work.0"), format!("{run}:work.1"), format!("{run}:work.2")]);
    running.check().await;
    let out = checked(
        &json!({ "name": "tried", "version": 1, "output": "{{ steps.each.output }}", "steps": [
            { "name": "each", "type": "for_each", "items": [3, 4], "steps": [{ "name": "w", "type": "task", "task": "w", "input": { "x": "{{ item }}" } }] }] })
        .to_string(),
    );
    let running = Running::start(out, world.echo(), json!({})).await;
    assert_eq!(running.output().await, json!([{ "x": 3 }, { "x": 4 }]));
}

#[tokio::test]
async fn a_loop_stops_at_the_first_failure_and_refuses_what_is_no_list_or_too_long() {
    let document = |more: Value| {
        let mut step = json!({ "name": "each", "type": "for_each", "items": "{{ input.items }}",
            "steps": [{ "name": "work", "type": "task", "task": "work", "input": "{{ {'n': item} }}" }] });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        steps(json!([step]))
    };
    let world = World::default();
    let services = world.services(
        |call, _| {
            if call.input["n"] == 2 { Err(Failure::permanent("no").with_code("bad")) } else { Ok(json!({})) }
        },
        |_, _| answer(200, json!({})),
    );
    let running =
        Running::start(document(json!({})), services.clone(), json!({ "items": [1, 2, 3, 4] })).await;
    assert_eq!(running.failed_with().await, "bad");
    assert_eq!(world.asked().len(), 2);
    running.check().await;
    let running = Running::start(document(json!({})), services.clone(), json!({ "items": 7 })).await;
    assert_eq!(running.failed_with().await, "expression_failed");
    let running =
        Running::start(document(json!({ "maxItems": 1 })), services, json!({ "items": [1, 3] })).await;
    assert_eq!(running.failed_with().await, "too_many_items");
}

#[tokio::test]
async fn what_was_done_is_undone_last_first_if_the_run_fails_or_is_cancelled() {
    let document = steps(json!([
        { "name": "a", "type": "task", "task": "a", "input": { "id": 1 }, "output": { "a": "{{ result.id }}" },
          "compensate": { "type": "task", "task": "undo-a", "input": { "id": "{{ output.a }}", "who": "{{ input.who }}" } } },
        { "name": "b", "type": "http", "method": "POST", "url": "https://x/b", "output": { "b": "{{ response.body.id }}" },
          "compensate": { "type": "http", "method": "DELETE", "url": "https://x/b/{{ output.b }}" } },
        { "name": "hold", "type": "promise", "timeout": "1d" },
    ]));
    for is_cancelled in [false, true] {
        let world = World::default();
        let running = Running::start(document.clone(), world.echo(), json!({ "who": "ada" })).await;
        running.lab.idle().await;
        match is_cancelled {
            true => drop(running.run.cancel("changed my mind").await.unwrap()),
            false => running.lab.advance(Duration::from_secs(25 * 3600)).await,
        }
        let status = running.settle().await;
        assert_eq!(status, if is_cancelled { RunStatus::Cancelled } else { RunStatus::Failed });
        assert_eq!(world.names(), ["a", "POST https://x/b", "DELETE https://x/b/h_1", "undo-a"]);
        assert_eq!(world.given("undo-a"), json!({ "id": 1, "who": "ada" }));
        assert_ne!(world.asked()[1].key, world.asked()[2].key, "undoing is an effect of its own");
        running.check().await;
    }
}

/// RELIABILITY, expressions: an error at run time fails the step, with its own code and without a retry.
#[tokio::test]
async fn an_expression_that_fails_fails_its_step_for_good() {
    for step in [
        json!({ "name": "a", "type": "task", "task": "t", "input": { "x": "{{ 1 / input.zero }}" } }),
        json!({ "name": "a", "type": "task", "task": "t", "when": "input.nothing == 1" }),
        json!({ "name": "a", "type": "task", "task": "t", "when": "input.zero" }),
        json!({ "name": "a", "type": "task", "task": "t", "when": "input.nothing == 1", "effect": "claimed" }),
        json!({ "name": "a", "type": "http", "method": "GET", "url": "https://x/{{ input.nothing }}" }),
        json!({ "name": "a", "type": "condition", "if": "input.nothing", "then": [{ "name": "b", "type": "task", "task": "t" }] }),
        json!({ "name": "a", "type": "child", "workflow": "w", "input": { "x": "{{ input.nothing }}" } }),
        json!({ "name": "a", "type": "for_each", "items": "{{ input.nothing }}", "steps": [{ "name": "b", "type": "task", "task": "t" }] }),
        json!({ "name": "a", "type": "approval", "show": "{{ input.nothing }}", "timeout": "1d" }),
        json!({ "name": "a", "type": "wait", "until": "{{ input.nothing }}" }),
    ] {
        let world = World::default();
        let running = Running::start(steps(json!([step.clone()])), world.echo(), json!({ "zero": 0 })).await;
        assert_eq!(running.failed_with().await, "expression_failed", "{step}");
        assert_eq!(running.status_of("a").await, StepStatus::Failed, "{step}");
        assert!(world.asked().is_empty(), "{step}");
        running.check().await;
    }
    for (url, more, code) in [
        ("{{ input.url }}", json!({ "hostFromData": true }), "bad_url"),
        ("https://x/", json!({ "headers": { "X-A": "{{ input.lines }}" } }), "bad_header"),
        ("https://x/", json!({ "headers": { "Authorization": "secret://lost" } }), "unknown_secret"),
    ] {
        let world = World::default();
        let mut step = json!({ "name": "a", "type": "http", "method": "GET", "url": url });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let input = json!({ "url": "file:///etc/passwd", "lines": "a\r\nHost: b" });
        let running = Running::start(steps(json!([step])), world.echo(), input).await;
        assert_eq!(running.failed_with().await, code);
        assert!(world.asked().is_empty(), "it is not sent");
    }
}

#[tokio::test]
async fn a_document_declares_its_version_its_need_for_keys_and_its_effects() {
    let document = checked(
        &json!({ "name": "tried", "version": 3, "idempotency": "required", "retention": "1h", "onFailure": "release",
            "fingerprint": { "ignore": ["/at"] }, "steps": [{ "name": "a", "type": "task", "task": "t" }] })
        .to_string(),
    );
    let world = World::default();
    let lab = hapax_engine::testing::TestEnvironment::new();
    hapax_documents::register(lab.engine(), document.clone(), world.echo()).unwrap();
    assert!(lab.engine().start("tried", &json!({})).await.is_err(), "a start needs a key");
    let first = lab.engine().start("tried", &json!({ "at": 1 })).idempotency_key("k").await.unwrap();
    let again = lab.engine().start("tried", &json!({ "at": 2 })).idempotency_key("k").await.unwrap();
    assert_eq!(first.id(), again.id());
    assert!(lab.engine().start("tried", &json!({ "b": 2 })).idempotency_key("k").await.is_err());
    lab.settle(first.id()).await.unwrap();
    let view = first.view().await.unwrap();
    assert_eq!(view.head.facts.workflow.version, 3);
    assert!(
        hapax_documents::register(lab.engine(), document, world.echo()).is_err(),
        "one version is one document"
    );
    let refused = lab.engine().start("tried", &json!([1])).idempotency_key("other").await.unwrap_err();
    assert!(refused.to_string().contains("must be an object"), "{refused}");
}

#[tokio::test]
async fn outputs_that_hold_too_much_together_end_the_run() {
    let world = World::default();
    let services =
        world.services(|_, _| Ok(json!({ "text": "x".repeat(1_500_000) })), |_, _| answer(200, json!({})));
    let many: Vec<Value> =
        (0..20).map(|n| json!({ "name": format!("s{n}"), "type": "task", "task": "t" })).collect();
    let running = Running::start(steps(json!(many)), services, json!({})).await;
    assert_eq!(running.failed_with().await, "state_too_large");
    assert!(world.asked().len() < 20, "{}", world.asked().len());
    running.check().await;
}
