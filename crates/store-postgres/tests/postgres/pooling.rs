//! A pooler between the store and PostgreSQL is refused with the reason, before anything is written.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hapax_postgres_fixture::Server;
use hapax_store_postgres::tokio_postgres::{self, NoTls};
use hapax_store_postgres::{OpenError, PostgresOptions, PostgresStore, find_schema, migrate};

use crate::fixture::until;

/// PgBouncer in front of a server; ends with the test.
struct Pooler {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Pooler {
    async fn start(server: &Server, settings: &str) -> Pooler {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let socket = server.data_folder().parent().unwrap().join("socket");
        let file = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\norders = host={} port={} user=postgres dbname=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n{settings}\n",
            socket.display(),
            server.port()
        );
        fs::write(&file, text).unwrap();
        // It refuses to run as root, and only the server's own user gets at its socket.
        let owner = fs::metadata(server.data_folder()).unwrap();
        for path in [folder.path(), file.as_path()] {
            chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let mut command = Command::new("/usr/sbin/pgbouncer");
        command.arg(&file).current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(folder.path().join("log")).unwrap());
        if owner.uid() != fs::metadata("/proc/self").unwrap().uid() {
            command.uid(owner.uid()).gid(owner.gid());
        }
        let process = command.spawn().expect("PgBouncer is installed");
        let pooler = Pooler { process, port, _folder: folder };
        until("PgBouncer", Duration::from_secs(10), async || TcpStream::connect(("127.0.0.1", port)).is_ok())
            .await;
        pooler
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/orders?sslmode=disable", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_is_refused_with_the_reason() {
    let server = Server::start().unwrap();
    let (admin, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    for mode in ["transaction", "session"] {
        // As it comes it takes no options; told to pass over them, it drops them without a word.
        for (ignored, reason) in [("", "startup parameter"), ("options", "are not there")] {
            let settings = format!("pool_mode = {mode}\nignore_startup_parameters = {ignored}");
            let pooler = Pooler::start(&server, &settings).await;
            let options = PostgresOptions::default();
            let refused = [
                PostgresStore::open(&pooler.url(), options.clone()).await.err(),
                migrate(&pooler.url(), &options).await.err(),
                find_schema(&pooler.url(), &options).await.err(),
            ];
            for error in refused {
                let error = error.expect("it is refused");
                let OpenError::Pooler { detail, .. } = &error else { panic!("{mode}, {ignored:?}: {error}") };
                assert!(detail.contains(reason), "{mode}, {ignored:?}: {error}");
                assert!(error.to_string().contains("Connect to PostgreSQL directly"), "{error}");
                assert!(!error.is_transient(), "a server that waits for it would wait for ever");
            }
        }
    }
    let tables = "SELECT count(*) FROM pg_class WHERE relname = 'runs'";
    assert_eq!(admin.query_one(tables, &[]).await.unwrap().get::<_, i64>(0), 0, "nothing was written");
}
