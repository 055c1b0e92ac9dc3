//! The examples of the reference pages are uploaded as they are written.

use serde_json::Value;

use super::support::TestServer;

const PAGES: [(&str, &str, &str); 3] = [
    (
        "workflow-documents.md",
        include_str!("../../../../docs/workflow-documents.md"),
        "/api/v1/workflow-definitions",
    ),
    (
        "webhook-source-documents.md",
        include_str!("../../../../docs/webhook-source-documents.md"),
        "/api/v1/webhook-sources",
    ),
    ("entity-documents.md", include_str!("../../../../docs/entity-documents.md"), "/api/v1/entity-workflows"),
];

#[tokio::test]
async fn every_document_of_the_reference_pages_can_be_uploaded() {
    let server = TestServer::memory().await;
    let yaml = [("content-type", "application/yaml")];
    for (name, page, path) in PAGES {
        let blocks: Vec<&str> =
            page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "{name} has an example");
        for block in blocks {
            let answer = server.send("POST", path, Some(block.to_owned()), &server.admin, &yaml).await;
            assert_eq!(answer.status, 201, "{name}: {}\n{block}", answer.text());
            let warnings = answer.json()["warnings"].clone();
            assert!(warnings == Value::Null || warnings == Value::Array(vec![]), "{name}: {warnings}");
        }
    }
}
