//! A browser without scripts: cookies, links and forms.

use std::collections::BTreeMap;
use std::sync::Mutex;

use reqwest::redirect::Policy;

use super::support::{Answer, TestServer, client};

/// Somebody with a browser, whose scripts are switched off.
pub struct Browser {
    http: reqwest::Client,
    url: String,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// One form as a page shows it: where it goes, and its hidden fields.
#[derive(Debug, Clone)]
pub struct Form {
    pub action: String,
    pub fields: Vec<(String, String)>,
}

impl Form {
    /// The form with a field filled in, or filled in otherwise.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(field, _)| field != name);
        self.fields.push((name.into(), value.into()));
        self
    }

    /// What a field holds.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }
}

impl Browser {
    /// Nobody in particular.
    pub fn new(server: &TestServer) -> Self {
        let http = client().redirect(Policy::none()).build().unwrap();
        Browser { http, url: server.url.clone(), cookies: Mutex::default() }
    }

    /// Somebody who signed in with this key.
    pub async fn signed_in(server: &TestServer, key: &str) -> Self {
        let browser = Browser::new(server);
        let answer = browser.post("/console/sign-in", &[("api-key", key), ("next", "")], &[]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser
    }

    /// The admin of `acme`.
    pub async fn admin(server: &TestServer) -> Self {
        Browser::signed_in(server, &server.admin).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = self.http.get(format!("{}{path}", self.url)).header("accept", "text/html,*/*;q=0.8");
        self.send(request, headers).await
    }

    /// A page that is there.
    pub async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    pub async fn post(&self, path: &str, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
        let body = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect::<Vec<_>>()
            .join("&");
        let request = self.http.post(format!("{}{path}", self.url)).body(body);
        self.send(request.header("content-type", "application/x-www-form-urlencoded"), headers).await
    }

    /// Sends a form as its page has it.
    pub async fn submit(&self, form: &Form) -> Answer {
        let fields: Vec<_> =
            form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.post(&form.action, &fields, &[]).await
    }

    /// The form of a page that goes to `action`.
    pub async fn form(&self, page: &str, action: &str) -> Form {
        let text = self.page(page).await;
        let mut found = forms(&text);
        found.retain(|form| form.action == action);
        found.into_iter().next().unwrap_or_else(|| panic!("{page} has no form for {action}: {text}"))
    }

    async fn send(&self, mut request: reqwest::RequestBuilder, headers: &[(&str, &str)]) -> Answer {
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let cookies: Vec<_> =
            self.cookies.lock().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        for set in headers.get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            let mut cookies = self.cookies.lock().unwrap();
            match set.to_str().unwrap().contains("Max-Age=0") {
                true => cookies.remove(name),
                false => cookies.insert(name.into(), value.into()),
            };
        }
        Answer { status, headers, bytes: response.bytes().await.unwrap().to_vec() }
    }

    /// What the cookies hold.
    pub fn cookies(&self) -> BTreeMap<String, String> {
        self.cookies.lock().unwrap().clone()
    }

    /// The same person at another server.
    pub fn at(server: &TestServer, other: &Browser) -> Self {
        Browser { http: other.http.clone(), url: server.url.clone(), cookies: Mutex::new(other.cookies()) }
    }

    /// A browser with the same cookies.
    pub fn copy(&self) -> Self {
        Browser { http: self.http.clone(), url: self.url.clone(), cookies: Mutex::new(self.cookies()) }
    }
}

/// Every form of a page that POSTs.
pub fn forms(page: &str) -> Vec<Form> {
    let parts = page.split("<form method=\"post\" action=\"").skip(1);
    parts
        .map(|part| {
            let (action, rest) = part.split_once('"').unwrap();
            let inside = rest.split("</form>").next().unwrap();
            let hidden = inside.split("<input type=\"hidden\" name=\"").skip(1);
            let fields = hidden.map(|input| {
                let (name, rest) = input.split_once('"').unwrap();
                let value = rest.split_once("value=\"").unwrap().1.split('"').next().unwrap();
                (name.to_owned(), unescaped(value))
            });
            Form { action: unescaped(action), fields: fields.collect() }
        })
        .collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
