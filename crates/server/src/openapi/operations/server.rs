//! The server itself.

use hapax_api as api;

use crate::openapi::operation::{Group, get};
use crate::routes::doubts::PageOf;

const SCHEMA: &str = "application/schema+json";

pub(super) fn group() -> Group {
    let operations = vec![
        get("/", "get_home", "Get the start page")
            .about("Links the reference, the description and the health checks, as HTML or as JSON for `Accept: application/json`.")
            .answers::<crate::home::ServiceIndex>(200, "The links.")
            .or_html(),
        get("/healthz", "get_health", "Check that the process is alive")
            .about("Answers as long as the process runs. Use it as a liveness probe.")
            .answers::<api::Health>(200, "The process is alive."),
        get("/readyz", "get_readiness", "Check that the server takes traffic")
            .about("Checks that the store takes reads and writes and that the node is not shutting down. Use it as a readiness probe.")
            .answers::<api::Readiness>(200, "The server takes traffic.")
            .answers::<api::Readiness>(503, "The server does not take traffic now."),
        get("/api/v1/node", "get_node", "Get the node")
            .about("Returns when the background loops of the node that answers last ran, and the settings in force. Only admins.")
            .answers::<api::Node>(200, "The node."),
        get("/api/v1/leases", "list_leases", "List leases")
            .about("Lists the runs of the workspace that some node drives now, newest first, with the leases they are driven under.")
            .query::<PageOf>()
            .answers_page::<api::RunLease>("One page of leases. It may hold fewer items than its limit, or none, although more follow."),
        get("/metrics", "get_metrics", "Get metrics")
            .about("Returns metrics of all workspaces in the text format of Prometheus.")
            .answers_text(200, "The metrics.", &["text/plain"]),
        get("/openapi.json", "get_openapi", "Get the OpenAPI description")
            .about("Returns this description.")
            .answers_object(200, "An OpenAPI 3.1 document.", "application/json"),
        get("/docs", "get_docs", "Get the reference")
            .about("Returns this description as a web page.")
            .answers_text(200, "A web page.", &["text/html"]),
        get("/schemas/workflow-definition.json", "get_definition_schema", "Get the schema of definitions")
            .about("Returns the JSON Schema of workflow definitions. Editors use it to check and complete documents.")
            .answers_object(200, "A JSON Schema.", SCHEMA),
        get("/schemas/webhook-source.json", "get_source_schema", "Get the schema of webhook sources")
            .about("Returns the JSON Schema of webhook sources.")
            .answers_object(200, "A JSON Schema.", SCHEMA),
        get("/schemas/entity-workflow.json", "get_entity_workflow_schema", "Get the schema of entity workflows")
            .about("Returns the JSON Schema of entity workflows.")
            .answers_object(200, "A JSON Schema.", SCHEMA),
    ];
    let about = "Health checks, metrics and descriptions of this server. Most need no credential.";
    Group { tag: "Server", about, examples: "server", operations }
}
