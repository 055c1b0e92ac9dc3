//! Programs that name their worker slot.

use hapax::{Ctx, Hapax, Result};
use serde::{Deserialize, Serialize};

use super::server::TestServer;

#[derive(Serialize, Deserialize)]
struct Number {
    number: u32,
}

async fn add(_: Ctx, input: Number) -> Result<u32> {
    Ok(input.number + 1)
}

/// Later names have a session of their own. It must not replace the first one of the same instance.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_an_instance_goes_on_with_its_first_workflows_when_it_registers_more() {
    let server = TestServer::start();
    let hapax = Hapax::builder(&server.url).api_key(&server.key).instance("slot-0").open().await.unwrap();
    for name in ["first", "second"] {
        hapax.register(name, add).unwrap();
        hapax.ready().await.unwrap();
    }
    for name in ["first", "second", "first"] {
        let run = hapax.start(name, &Number { number: 1 }).await.unwrap();
        assert_eq!(run.result::<u32>().await.unwrap(), 2, "{name}");
    }
}
