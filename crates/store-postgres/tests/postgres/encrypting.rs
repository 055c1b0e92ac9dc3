//! All connections are encrypted as the URL requires, and no untrusted certificate is accepted.
#![cfg(feature = "tls")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hapax_engine::store::Store;
use hapax_postgres_fixture::Server;
use hapax_store_postgres::tokio_postgres::{self, Client, NoTls};
use hapax_store_postgres::{OpenError, PostgresOptions, PostgresStore};

use crate::fixture::{database, until};

/// A server with a self-signed certificate for 127.0.0.1.
struct TlsServer {
    server: Server,
    admin: Client,
    /// The certificate, for clients that trust it.
    certificate: PathBuf,
}

impl TlsServer {
    async fn start() -> TlsServer {
        let server = Server::start().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let data = server.data_folder();
        let certificate = put(&data, "server.crt", &made.cert.pem());
        put(&data, "server.key", &made.signing_key.serialize_pem());
        let admin = connect(&server.url("postgres")).await;
        admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        until("TLS", Duration::from_secs(10), async || {
            admin.query_one("SELECT current_setting('ssl')", &[]).await.unwrap().get::<_, &str>(0) == "on"
        })
        .await;
        TlsServer { server, admin, certificate }
    }

    fn url(&self, query: &str) -> String {
        format!("{}?{query}", self.server.tcp_url("postgres"))
    }

    fn trusting(&self, mode: &str) -> String {
        self.url(&format!("sslmode={mode}&sslrootcert={}", self.certificate.display()))
    }

    /// Numbers of connections of the store, and of encrypted ones, after it has used all kinds of
    /// them.
    async fn connections(&self, url: &str) -> (i64, i64) {
        let store = PostgresStore::open(url, PostgresOptions::default()).await.unwrap();
        let mut hints = store.hints().unwrap();
        tokio::time::timeout(Duration::from_secs(10), hints.changed()).await.unwrap().unwrap();
        store.list_keys(None).await.unwrap();
        let count =
            "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name = 'hapax'";
        let row = self.admin.query_one(count, &[]).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        until("the end of the connections", Duration::from_secs(10), async || {
            self.admin.query_one(count, &[]).await.unwrap().get::<_, i64>(0) == 0
        })
        .await;
        (row.get(0), row.get(1))
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A file that only the server's user may read.
fn put(data: &Path, name: &str, text: &str) -> PathBuf {
    let (path, owner) = (data.join(name), fs::metadata(data).unwrap());
    fs::write(&path, text).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

async fn refused(url: &str) -> OpenError {
    let options = PostgresOptions::default();
    PostgresStore::open(url, options).await.expect_err("it is refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_as_the_url_asks() {
    let secure = TlsServer::start().await;
    for query in ["", "sslmode=prefer", "sslmode=require"] {
        let (all, encrypted) = secure.connections(&secure.url(query)).await;
        assert!(all >= 2 && encrypted == all, "{query:?}: {encrypted} of {all}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        let (all, encrypted) = secure.connections(&secure.trusting(mode)).await;
        assert!(all >= 2 && encrypted == all, "{mode}: {encrypted} of {all}");
    }
    let (all, encrypted) = secure.connections(&secure.url("sslmode=disable")).await;
    assert!(all >= 2 && encrypted == 0, "{encrypted} of {all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_trusted_is_refused() {
    let secure = TlsServer::start().await;
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = put(&secure.server.data_folder(), "other.crt", &other.cert.pem());
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = secure.url(&format!("sslmode={mode}&sslrootcert={}", other.display()));
        let error = refused(&url).await;
        assert!(matches!(&error, OpenError::Tls { detail, .. } if detail.contains("certificate")), "{error}");
    }
    // The certificates of this machine, if there are any, do not include it either.
    for mode in ["verify-ca", "verify-full"] {
        let error = refused(&secure.url(&format!("sslmode={mode}"))).await;
        assert!(matches!(error, OpenError::Tls { .. } | OpenError::NobodyTrusted), "{error}");
    }
    // Only `verify-full` rejects another host's certificate.
    let elsewhere = |mode: &str| secure.trusting(mode).replace("@127.0.0.1:", "@localhost:");
    let error = refused(&elsewhere("verify-full")).await;
    assert!(
        matches!(&error, OpenError::Tls { detail, .. } if detail.contains("not valid for name")),
        "{error}"
    );
    let (all, encrypted) = secure.connections(&elsewhere("verify-ca")).await;
    assert_eq!(all, encrypted);
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_with_encryption_are_reported() {
    let database = database().await;
    for mode in ["require", "verify-full"] {
        let error = refused(&format!("{}?sslmode={mode}", database.tcp_url())).await;
        assert!(matches!(error, OpenError::NoTls { .. } | OpenError::NobodyTrusted), "{error}");
    }
    let missing = format!("{}?sslmode=verify-full&sslrootcert=/nowhere/root.pem", database.tcp_url());
    let error = refused(&missing).await;
    assert!(
        matches!(&error, OpenError::BadRootCertificate { file, .. } if file.ends_with("root.pem")),
        "{error}"
    );
    let empty = format!("{}?sslmode=verify-full&sslrootcert=/dev/null", database.tcp_url());
    let error = refused(&empty).await;
    assert!(error.to_string().contains("holds no certificate"), "{error}");
    let url = format!("{}?sslmode=prefer", database.tcp_url());
    PostgresStore::open(&url, PostgresOptions::default()).await.unwrap().close().await.unwrap();
}
