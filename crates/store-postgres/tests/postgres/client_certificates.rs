//! A server that accepts only clients with a trusted certificate for the user of that name.
#![cfg(feature = "tls")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hapax_engine::store::Store;
use hapax_postgres_fixture::Server;
use hapax_store_postgres::tokio_postgres::{self, Client, NoTls};
use hapax_store_postgres::{OpenError, PostgresOptions, PostgresStore};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::fixture::until;

/// A certificate authority.
struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let certificate = params.self_signed(&key).unwrap();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a host or a user, and its key, both as PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server that requires a certificate over TCP.
struct CertificateServer {
    server: Server,
    authority: Authority,
    folder: TempDir,
}

impl CertificateServer {
    async fn start() -> CertificateServer {
        let (server, authority) = (Server::start().unwrap(), Authority::new());
        let data = server.data_folder();
        let (certificate, key) = authority.sign("127.0.0.1");
        for (name, text) in [("server.crt", &certificate), ("server.key", &key)] {
            give(&data, name, text);
        }
        give(&data, "root.crt", &authority.certificate.pem());
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-full\n";
        give(&data, "pg_hba.conf", rules);
        let admin = connect(&server.url("postgres")).await;
        admin.batch_execute("CREATE ROLE runner LOGIN SUPERUSER").await.unwrap();
        for set in ["ssl = on", "ssl_ca_file = 'root.crt'"] {
            admin.batch_execute(&format!("ALTER SYSTEM SET {set}")).await.unwrap();
        }
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        until("TLS", Duration::from_secs(10), async || {
            admin.query_one("SELECT current_setting('ssl')", &[]).await.unwrap().get::<_, &str>(0) == "on"
        })
        .await;
        CertificateServer { server, authority, folder: tempfile::tempdir().unwrap() }
    }

    /// A certificate of `authority` for `user`, in files of this program.
    fn identity(&self, authority: &Authority, user: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = authority.sign(user);
        let at = |name: &str| self.folder.path().join(format!("{user}.{name}"));
        (put(&at("crt"), &certificate, 0o644), put(&at("key"), &key, 0o600))
    }

    /// The URL for `runner`, with what a query adds.
    fn url(&self, query: &str) -> String {
        let root = put(&self.folder.path().join("root.crt"), &self.authority.certificate.pem(), 0o644);
        let port = self.server.port();
        format!(
            "postgres://runner@127.0.0.1:{port}/postgres?sslmode=verify-full&sslrootcert={}{query}",
            root.display()
        )
    }

    fn url_as(&self, (certificate, key): &(PathBuf, PathBuf)) -> String {
        self.url(&format!("&sslcert={}&sslkey={}", certificate.display(), key.display()))
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A file of the server's.
fn give(data: &Path, name: &str, text: &str) {
    let owner = fs::metadata(data).unwrap();
    let path = put(&data.join(name), text, 0o600);
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn put(path: &Path, text: &str, mode: u32) -> PathBuf {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    path.to_owned()
}

async fn refused(url: &str) -> OpenError {
    PostgresStore::open(url, PostgresOptions::default()).await.expect_err("it is refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_shows_the_certificate_that_the_url_names() {
    let strict = CertificateServer::start().await;
    let url = strict.url_as(&strict.identity(&strict.authority, "runner"));
    let store = PostgresStore::open(&url, PostgresOptions::default()).await.unwrap();
    let mut hints = store.hints().unwrap();
    tokio::time::timeout(Duration::from_secs(10), hints.changed()).await.unwrap().unwrap();
    store.list_keys(None).await.unwrap();
    let admin = connect(&strict.server.url("postgres")).await;
    let count = "SELECT count(*), count(*) FILTER (WHERE client_dn = '/CN=runner')
        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'hapax'";
    let row = admin.query_one(count, &[]).await.unwrap();
    let (all, known): (i64, i64) = (row.get(0), row.get(1));
    assert!(all >= 2 && known == all, "{known} of {all}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_certificate_lets_in_nobody_else() {
    let strict = CertificateServer::start().await;
    let error = refused(&strict.url("")).await;
    assert!(matches!(error, OpenError::NotLetIn { .. }), "{error}");
    assert!(error.to_string().contains("sslcert, sslkey"), "{error}");
    // Known to the server, but as another user.
    let error = refused(&strict.url_as(&strict.identity(&strict.authority, "guest"))).await;
    assert!(matches!(error, OpenError::NotLetIn { .. }), "{error}");
    // Signed by an authority that the server does not know: not a transient error.
    let error = refused(&strict.url_as(&strict.identity(&Authority::new(), "runner"))).await;
    assert!(matches!(error, OpenError::Tls { .. }) && !error.is_transient(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_named_before_anything_is_sent() {
    let strict = CertificateServer::start().await;
    let (certificate, key) = strict.identity(&strict.authority, "runner");
    let (_, other_key) = strict.identity(&strict.authority, "guest");
    let refused_as = async |certificate: &Path, key: &Path| {
        refused(&strict.url_as(&(certificate.to_owned(), key.to_owned()))).await
    };
    let missing = Path::new("/nowhere/runner.pem");
    let error = refused_as(missing, &key).await;
    assert!(matches!(&error, OpenError::BadClientCertificate { file, .. } if file == missing), "{error}");
    let error = refused_as(&certificate, missing).await;
    assert!(matches!(&error, OpenError::BadClientKey { file, .. } if file == missing), "{error}");
    let error = refused_as(&key, &key).await.to_string();
    assert!(error.contains("holds no certificate"), "{error}");
    let error = refused_as(&certificate, &put(&strict.folder.path().join("no.key"), "no key", 0o600)).await;
    assert!(error.to_string().contains("holds no private key"), "{error}");
    let error = refused_as(&certificate, &other_key).await;
    assert!(error.to_string().contains("does not go with the key"), "{error}");
    let secret = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let error = refused_as(&certificate, &put(&strict.folder.path().join("locked.key"), secret, 0o600)).await;
    assert!(error.to_string().contains("passphrase"), "{error}");
    for mode in [0o644, 0o604, 0o660] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let error = refused_as(&certificate, &key).await.to_string();
        assert!(error.contains("chmod 600"), "{mode:o}: {error}");
    }
}
