//! A real Chromium, driven by WebDriver: each has a driver, a profile and a window of its own.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::support::{PATIENCE, client};

/// What WebDriver calls the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The grid in which pictures are compared.
pub const GRID_WIDTH: usize = 24;
pub const GRID_HEIGHT: usize = 16;

/// How a browser is set up.
#[derive(Debug, Clone, Copy)]
pub struct BrowserSettings {
    pub width: u32,
    pub height: u32,
    pub theme: &'static str,
    pub scripts: bool,
}

impl BrowserSettings {
    /// A desk, in daylight.
    pub const DESK: BrowserSettings =
        BrowserSettings { width: 1440, height: 900, theme: "light", scripts: true };
}

/// A window of Chromium. The processes end with it.
pub struct Chromium {
    driver: Child,
    http: reqwest::Client,
    session: String,
    _profile: tempfile::TempDir,
}

/// How often a driver is started: one may find that the free port it chose is taken meanwhile, and ends.
const DRIVER_TRIES: usize = 5;

/// Starts a driver; answers it with its output and its port.
fn start_driver() -> Option<(Child, Lines<BufReader<ChildStdout>>, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver is there (apt-get install chromium chromium-driver)");
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_suffix('.')?.split_once("on port ").map(|(_, port)| port.to_owned()));
    match port {
        Some(port) => Some((driver, lines, port)),
        None => {
            let _ = driver.wait();
            None
        }
    }
}

impl Chromium {
    pub async fn start(look: BrowserSettings) -> Self {
        let (driver, lines, port) =
            (0..DRIVER_TRIES).find_map(|_| start_driver()).expect("a driver names its port");
        // Somebody must read what it says, or it waits.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--lang=en-GB",
            &format!("--user-data-dir={}", profile.path().display()),
        ];
        // 1 lets scripts run, 2 does not.
        let scripts = if look.scripts { 1 } else { 2 };
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": {
                "args": arguments,
                "prefs": { "profile.managed_default_content_settings.javascript": scripts },
            },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let http = client().timeout(PATIENCE * 2).build().unwrap();
        let base = format!("http://127.0.0.1:{port}/session");
        let made: Value = http.post(&base).json(&wanted).send().await.unwrap().json().await.unwrap();
        let id = made["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {made}"));
        let chromium = Chromium { driver, http, session: format!("{base}/{id}"), _profile: profile };
        let phone = look.width < 800;
        let metrics =
            json!({ "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": phone });
        chromium.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": look.theme }] });
        chromium.devtools("Emulation.setEmulatedMedia", scheme).await;
        chromium
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Value, String> {
        let request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.session));
        let request = if method == "POST" { request.json(&body) } else { request };
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let is_fine = answer.status().is_success();
        let said: Value = answer.json().await.map_err(|error| error.to_string())?;
        if is_fine { Ok(said["value"].clone()) } else { Err(said.to_string()) }
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.ask("POST", "/goog/cdp/execute", body).await.unwrap()
    }

    /// Runs a script in every page from now on, before the page's own.
    pub async fn before_each_page(&self, script: &str) {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    pub async fn open(&self, url: &str) {
        self.ask("POST", "/url", json!({ "url": url })).await.unwrap();
    }

    pub async fn url(&self) -> String {
        self.ask("GET", "/url", Value::Null).await.unwrap().as_str().unwrap().to_owned()
    }

    /// Runs a script in the page, whatever its policy says, and whether its own scripts run or not.
    pub async fn run(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", json!({ "script": script, "args": [] })).await.unwrap()
    }

    /// The same for a script that calls its last argument when it is done.
    pub async fn run_until_done(&self, script: &str) -> Value {
        self.ask("POST", "/execute/async", json!({ "script": script, "args": [] })).await.unwrap()
    }

    async fn find(&self, css: &str) -> Result<String, String> {
        let found = self.ask("POST", "/element", json!({ "using": "css selector", "value": css })).await?;
        Ok(format!("/element/{}", found[ELEMENT].as_str().unwrap_or_default()))
    }

    pub async fn click(&self, css: &str) {
        let element = self.find(css).await.unwrap();
        self.ask("POST", &format!("{element}/click"), json!({}))
            .await
            .unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    pub async fn fill(&self, css: &str, text: &str) {
        let element = self.find(css).await.unwrap();
        self.ask("POST", &format!("{element}/value"), json!({ "text": text })).await.unwrap();
    }

    pub async fn press_enter(&self, css: &str) {
        self.fill(css, "\u{e007}").await;
    }

    /// What the page says, as people read it.
    pub async fn text(&self) -> String {
        let element = self.find("body").await.unwrap();
        self.ask("GET", &format!("{element}/text"), Value::Null).await.unwrap().as_str().unwrap().to_owned()
    }

    /// Looks until the page says this.
    pub async fn until_says(&self, expected: &str) -> String {
        let since = Instant::now();
        loop {
            // A page that is being left has no body.
            let said = match self.find("body").await {
                Ok(element) => {
                    self.ask("GET", &format!("{element}/text"), Value::Null).await.unwrap_or_default()
                }
                Err(_) => Value::Null,
            };
            let said = said.as_str().unwrap_or_default().to_owned();
            if said.contains(expected) {
                return said;
            }
            assert!(since.elapsed() < PATIENCE, "the page never says {expected:?}: {said}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Another tab, which is then the one that is driven; answers the one before.
    pub async fn new_tab(&self) -> String {
        let before = self.ask("GET", "/window", Value::Null).await.unwrap();
        let new = self.ask("POST", "/window/new", json!({ "type": "tab" })).await.unwrap();
        self.switch_to(new["handle"].as_str().unwrap()).await;
        before.as_str().unwrap().to_owned()
    }

    pub async fn switch_to(&self, tab: &str) {
        self.ask("POST", "/window", json!({ "handle": tab })).await.unwrap();
    }

    /// Brightness of the window in a coarse grid, row by row, 0 to 255 each.
    pub async fn look(&self) -> Vec<u8> {
        let shot = self.devtools("Page.captureScreenshot", json!({})).await;
        let measure = format!(
            "const done = arguments[arguments.length - 1]; const image = new Image(); image.onload = () => {{ \
             const canvas = new OffscreenCanvas({GRID_WIDTH}, {GRID_HEIGHT}); const context = canvas.getContext('2d'); \
             context.imageSmoothingQuality = 'high'; context.drawImage(image, 0, 0, {GRID_WIDTH}, {GRID_HEIGHT}); \
             const points = context.getImageData(0, 0, {GRID_WIDTH}, {GRID_HEIGHT}).data; const grid = []; \
             for (let at = 0; at < points.length; at += 4) grid.push(Math.round((points[at] + points[at + 1] + points[at + 2]) / 3)); \
             done(grid); }}; image.src = 'data:image/png;base64,{}';",
            shot["data"].as_str().unwrap()
        );
        let grid = self.run_until_done(&measure).await;
        grid.as_array().unwrap().iter().map(|it| u8::try_from(it.as_u64().unwrap()).unwrap()).collect()
    }

    /// Keeps what the window shows, under `target/console`.
    pub async fn keep_picture(&self, name: &str) {
        let shot = self.devtools("Page.captureScreenshot", json!({ "captureBeyondViewport": true })).await;
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// What the browser complained about: errors of scripts, what the policy kept out, files that are not there.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", json!({ "type": "browser" })).await.unwrap();
        let entries = log.as_array().unwrap().iter();
        entries.filter(|entry| entry["level"] == "SEVERE").map(|entry| entry["message"].to_string()).collect()
    }

    /// Signs in as a person does.
    pub async fn sign_in(&self, server: &str, key: &str, page: &str) {
        self.open(&format!("{server}{page}")).await;
        self.fill("input[name=api-key]", key).await;
        self.click("button[type=submit]").await;
        let since = Instant::now();
        while self.url().await.contains("/console/sign-in") {
            assert!(since.elapsed() < PATIENCE, "nobody is let in: {}", self.text().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Where pictures are kept.
fn pictures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/console"))
}

impl Chromium {
    /// Ends the session and with it the browser; without a runtime, because `drop` has none.
    fn end_browser(&self) {
        let Some((host, path)) = self.session.strip_prefix("http://").and_then(|it| it.split_once('/'))
        else {
            return;
        };
        let Ok(mut stream) = TcpStream::connect(host) else { return };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let request = format!("DELETE /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        if stream.write_all(request.as_bytes()).is_ok() {
            // It answers once the browser has ended, and may keep the connection open after that.
            let _ = BufReader::new(stream).read_line(&mut String::new());
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // A driver that ends may leave its browser behind, so the browser is ended first.
        self.end_browser();
        let id = rustix::process::Pid::from_child(&self.driver);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.driver.wait();
    }
}

/// The text of axe-core, which judges pages; `None` where npm cannot fetch it.
pub fn axe() -> Option<String> {
    let target = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target"));
    let folder = target.join("axe-core-4.14.0");
    let script = folder.join("package/axe.min.js");
    if !script.exists() {
        // Several tests may fetch it at once: each into a folder of its own, and the first one counts.
        std::fs::create_dir_all(&target).ok()?;
        let own = tempfile::tempdir_in(&target).ok()?;
        let packed = Command::new("npm")
            .args(["pack", "--silent", "axe-core@4.14.0"])
            .current_dir(own.path())
            .output();
        if !packed.is_ok_and(|packed| packed.status.success()) {
            eprintln!("skipped: npm could not fetch axe-core");
            return None;
        }
        let unpack =
            Command::new("tar").args(["-xzf", "axe-core-4.14.0.tgz"]).current_dir(own.path()).status();
        assert!(unpack.unwrap().success());
        if std::fs::rename(own.path(), &folder).is_ok() {
            let _ = own.keep();
        }
    }
    std::fs::read_to_string(script).ok()
}
