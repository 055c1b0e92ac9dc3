//! The API description: complete, true, and unchanged unless accepted.

use std::collections::BTreeSet;
use std::path::Path;

use hapax_server::access::Access;
use hapax_server::identity::INSTALLATION;
use hapax_server::{list_routes, openapi};
use http::Method;
use serde_json::Value;

use super::support::{Role, TestServer};

fn description() -> Value {
    serde_json::from_str(openapi::text()).unwrap()
}

/// Parameters of an operation, with references followed.
fn parameters_of(described: &Value, operation: &Value) -> Vec<Value> {
    let follow = |parameter: &Value| match parameter["$ref"].as_str() {
        Some(reference) => described.pointer(&reference[1..]).expect("it leads somewhere").clone(),
        None => parameter.clone(),
    };
    operation["parameters"].as_array().into_iter().flatten().map(follow).collect()
}

/// Every route is in the table of operations, and every operation has a route.
#[test]
fn the_operations_and_the_routes_are_the_same() {
    let operations: Vec<String> =
        openapi::list_operations().iter().map(|entry| format!("{} {}", entry.method, entry.path)).collect();
    let routes: BTreeSet<String> =
        list_routes().into_iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(operations.iter().cloned().collect::<BTreeSet<_>>(), routes);
    assert_eq!(operations.len(), routes.len(), "no operation is there twice");
}

/// Each code is listed at its operations, or among the codes of every request.
#[test]
fn every_code_is_described() {
    let described = description();
    let mut told: BTreeSet<String> =
        openapi::codes_of_every_request().iter().map(|code| code.as_str().to_owned()).collect();
    for operation in
        described["paths"].as_object().unwrap().values().flat_map(|it| it.as_object().unwrap().values())
    {
        let codes = operation["x-problem-codes"].as_array().unwrap().iter().filter_map(Value::as_str);
        told.extend(codes.map(str::to_owned));
    }
    let all: BTreeSet<String> = hapax_api::ERRORS.iter().map(|kind| kind.code.to_owned()).collect();
    assert_eq!(told, all);
}

/// Every operation lists each status of its codes.
#[test]
fn every_code_of_an_operation_is_at_its_status() {
    let described = description();
    for operation in
        described["paths"].as_object().unwrap().values().flat_map(|it| it.as_object().unwrap().values())
    {
        for code in operation["x-problem-codes"].as_array().unwrap().iter().filter_map(Value::as_str) {
            let status = hapax_api::Code::from_name(code).unwrap().kind().status.to_string();
            let answer = &operation["responses"][&status];
            let answer = match answer["$ref"].as_str() {
                Some(reference) => described.pointer(&reference[1..]).unwrap(),
                None => answer,
            };
            let id = &operation["operationId"];
            let codes = answer["x-problem-codes"].as_array().unwrap_or_else(|| panic!("{id} {status}"));
            assert!(codes.iter().any(|listed| listed == code), "{id} {code}");
        }
    }
}

/// Every route is described, and every description has a route.
#[test]
fn the_description_and_the_routes_are_the_same() {
    let described = description();
    let paths = described["paths"].as_object().unwrap();
    let described: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let routes: BTreeSet<String> =
        list_routes().into_iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(described, routes);
}

/// Each has its required access and its purpose, and its parameters match the path.
#[test]
fn each_description_says_who_may_call_it() {
    let described = description();
    for (method, path, access) in list_routes() {
        let operation = &described["paths"][path][method.as_str().to_lowercase()];
        let has_security = operation["security"].as_array().is_some_and(|schemes| !schemes.is_empty());
        assert_eq!(has_security, access != Access::Open, "{method} {path}");
        assert!(operation["x-required-role"].is_string(), "{method} {path}");
        for says in ["summary", "description"] {
            assert!(operation[says].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}: {says}");
        }
        let parameters = parameters_of(&described, operation);
        let in_path: BTreeSet<&str> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let braced: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(in_path, braced, "{method} {path}");
    }
}

/// OpenAPI requires it, and client generators name functions after it.
#[test]
fn each_operation_has_an_id_of_its_own() {
    let described = description();
    let mut ids = std::collections::BTreeMap::new();
    for (method, path, _) in list_routes() {
        let operation = &described["paths"][path][method.as_str().to_lowercase()];
        let id = operation["operationId"].as_str().expect("it has one").to_owned();
        let before = ids.insert(id.clone(), format!("{method} {path}"));
        assert_eq!(before, None, "{id} is also {method} {path}");
    }
}

/// The published description changes only on purpose: run with HAPAX_UPDATE=1 to accept a change.
#[test]
fn the_description_is_the_one_on_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi.json");
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(&file, openapi::text()).unwrap();
    }
    let on_file = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(on_file == openapi::text(), "the API changed; look at it, then run with HAPAX_UPDATE=1");
}

#[tokio::test]
async fn the_description_is_served_for_programs_and_for_people() {
    let server = TestServer::memory().await;
    let served = server.send("GET", "/openapi.json", None, "", &[]).await;
    assert_eq!((served.status, served.json()), (200, description()));
    let page = server.send("GET", "/docs", None, "", &[]).await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.text().contains("id=\"cancel_run\""), "{}", page.text());
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for (asset, kind) in [("/docs/style.css", "text/css"), ("/docs/search.js", "text/javascript")] {
        let served = server.send("GET", asset, None, "", &[]).await;
        assert_eq!(served.status, 200, "{asset}");
        assert!(served.header("content-type").unwrap().starts_with(kind), "{asset}");
        assert!(page.text().contains(asset), "the page loads {asset}");
    }
    let schema = server.send("GET", "/schemas/workflow-definition.json", None, "", &[]).await;
    assert!(schema.json()["$schema"].is_string());
}

/// CONTRACT §5: `If-Match` works where it is described. Elsewhere it would be an empty promise, and
/// is rejected.
#[tokio::test]
async fn a_version_that_guards_nothing_is_refused() {
    let server = TestServer::memory().await;
    let key = server.key(INSTALLATION, Role::Admin).await;
    let described = description();
    let mut taken = 0;
    for (method, path, access) in list_routes() {
        if method == Method::GET || access == Access::Open {
            continue;
        }
        let operation = &described["paths"][path][method.as_str().to_lowercase()];
        let parameters = parameters_of(&described, operation);
        let is_described = parameters.iter().any(|parameter| parameter["name"] == "If-Match");
        let target = path.replace(['{', '}'], "");
        let headers = [("if-match", "\"1\"")];
        let answer = server.send(method.as_str(), &target, Some("{}".into()), &key, &headers).await;
        let is_refused = (answer.status, &answer.json()["path"]) == (400, &Value::from("header:If-Match"));
        assert_eq!(is_refused, !is_described, "{method} {path}: {}", answer.text());
        taken += usize::from(is_described);
    }
    assert!(taken > 0, "some take it");
}

/// Lists whose items have no address of their own: parts of another thing, and what workers have open at the moment.
const PARTS: [&str; 10] = [
    "/api/v1/leases",
    "/api/v1/worker-sessions",
    "/api/v1/worker-workflows",
    "/api/v1/workflow-runs/{id}/events",
    "/api/v1/workflow-runs/{id}/ledger",
    "/api/v1/workflow-runs/{id}/notes",
    "/api/v1/workflow-runs/{id}/steps",
    "/api/v1/entities/{type}/{id}/notes",
    "/api/v1/entities/{type}/{id}/operations",
    "/api/v1/worker-sessions/{id}/runs/{run}/log",
];

#[test]
fn everything_that_is_listed_can_be_fetched() {
    let described = description();
    let gets = list_routes().into_iter().filter(|(method, ..)| *method == Method::GET);
    let paths: Vec<&str> = gets.map(|(_, path, _)| path).collect();
    let is_list = |path: &str| {
        let answer = &described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"];
        answer["schema"]["$ref"].as_str().is_some_and(|schema| schema.ends_with("Page"))
    };
    let lists: Vec<&str> = paths.iter().copied().filter(|path| is_list(path)).collect();
    assert!(lists.len() > 15, "{lists:?}");
    for list in lists.into_iter().filter(|list| !PARTS.contains(list)) {
        let is_one = |path: &&str| {
            let rest = path.strip_prefix(list).and_then(|rest| rest.strip_prefix('/'));
            rest.is_some_and(|rest| rest.split('/').all(|part| part.starts_with('{')))
        };
        assert!(paths.iter().any(is_one), "GET {list} lists things that no route fetches");
    }
}
