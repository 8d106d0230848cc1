//! Users, passwords and TLS: of a single server, and of a cluster, whose client makes the connections.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::server::{RedisServer, free_port, until};
use super::*;

/// Cargo sets it to the name of the package.
const VARIABLE: &str = "CARGO_PKG_NAME";

/// Writes `root.pem`, and certificates with keys for the server and for a client: `server.pem`, `client.key`, ….
fn issue(directory: &Path) {
    let put = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // One that has the name of its issuer would be self-signed to OpenSSL.
    params.distinguished_name.push(DnType::CommonName, "root");
    put("root.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        put(&format!("{name}.pem"), &params.signed_by(&key, &issuer).unwrap().pem());
        put(&format!("{name}.key"), &key.serialize_pem());
    }
}

/// A server with a port for TLS, at which clients show a certificate, and a user `ann`. Gives its address as well.
async fn start(directory: &Path, more: &[&str]) -> (RedisServer, String) {
    issue(directory);
    let file = |name: &str| directory.join(name).display().to_string();
    let port = free_port().to_string();
    let (certificate, key, root) = (file("server.pem"), file("server.key"), file("root.pem"));
    let tls = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let clients = ["--tls-ca-cert-file", &root, "--tls-auth-clients", "yes"];
    let user = format!("ann on >{} ~* &* +@all", env!("CARGO_PKG_NAME"));
    let words: Vec<&str> = user.split(' ').collect();
    let arguments = [&tls[..], &clients, more, &["--user"], &words].concat();
    (RedisServer::start(&arguments).await, format!("rediss://127.0.0.1:{port}"))
}

fn with_tls(directory: &Path, address: &str) -> Params {
    let file = |name: &str| directory.join(name).display().to_string();
    let tls = Tls {
        ca_file: file("root.pem"),
        cert_file: file("client.pem"),
        key_file: file("client.key"),
        ..Tls::default()
    };
    std::fs::write(directory.join("user"), "ann\n").unwrap();
    Params {
        tls: Some(tls),
        username_file: file("user"),
        password_environment: VARIABLE.to_owned(),
        ..params(address)
    }
}

/// Who holds connections, by the server itself.
async fn users(server: &RedisServer) -> String {
    server.ask("CLIENT LIST").await
}

#[tokio::test]
async fn a_server_knows_the_user_and_the_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (server, address) = start(directory.path(), &[]).await;
    let with = with_tls(directory.path(), &address);
    let (handler, env) = handler(with.clone()).await;
    assert_eq!(granted(&*handler, "aq", 2).await, 2);
    assert!(users(&server).await.contains("user=ann"), "{}", users(&server).await);
    assert!(!format!("{:?}", handler.status()).contains(env!("CARGO_PKG_NAME")));
    env.tasks.shut_down().await;
    // Another way to say the same.
    let written = Params { username: "ann".into(), username_file: String::new(), ..with.clone() };
    let (handler, env) = super::handler(written).await;
    assert_eq!(granted(&*handler, "bq", 1).await, 1);
    env.tasks.shut_down().await;
    let tls = with.tls.clone().unwrap();
    let bare = Some(Tls { cert_file: String::new(), key_file: String::new(), ..tls.clone() });
    let elsewhere = Some(Tls { server_name: "elsewhere".into(), ..tls.clone() });
    let untrusted = Some(Tls { ca_file: String::new(), ..tls });
    for (params, why) in [
        (Params { tls: bare, ..with.clone() }, "CertificateRequired"),
        (Params { tls: elsewhere, ..with.clone() }, "elsewhere"),
        (Params { tls: untrusted, ..with.clone() }, "UnknownIssuer"),
        (Params { tls: None, ..with.clone() }, "UnknownIssuer"),
        (
            Params {
                username_environment: "NO_SUCH_VARIABLE".into(),
                username_file: String::new(),
                ..with.clone()
            },
            "NO_SUCH_VARIABLE",
        ),
        (
            Params { username_environment: VARIABLE.into(), username_file: String::new(), ..with },
            "authentication failed",
        ),
    ] {
        let (handler, env) = super::handler(params).await;
        let text = allocate(&*handler, "none", "cq", 1, true).await.unwrap_err().message;
        assert!(text.starts_with("Redis does not answer: 127.0.0.1:") && text.contains(why), "{why}: {text}");
        env.tasks.shut_down().await;
    }
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_used_for_the_next_connection() {
    let directory = tempfile::tempdir().unwrap();
    let (server, address) = start(directory.path(), &[]).await;
    let with = with_tls(directory.path(), &address);
    let client = directory.path().join("client.pem");
    let right = std::fs::read(&client).unwrap();
    std::fs::write(&client, "none").unwrap();
    let (handler, env) = handler(with).await;
    let text = allocate(&*handler, "none", "aq", 1, true).await.unwrap_err().message;
    assert!(text.contains("client.pem"), "{text}");
    std::fs::write(&client, right).unwrap();
    until("a grant", async || allocate(&*handler, "none", "bq", 1, false).await.is_ok()).await;
    env.tasks.shut_down().await;
    drop(server);
}

#[tokio::test]
async fn a_cluster_knows_the_user_and_the_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let bus = free_port().to_string();
    let cluster = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", &bus];
    // The port for TLS is the one that the server names to clients.
    let announced = ["--cluster-announce-ip", "127.0.0.1", "--tls-cluster", "yes"];
    let (server, address) = start(directory.path(), &[&cluster[..], &announced].concat()).await;
    let _: String = server.ask("CLUSTER ADDSLOTSRANGE 0 16383").await;
    until("the cluster is complete", async || {
        server.ask::<String>("CLUSTER INFO").await.contains("cluster_state:ok")
    })
    .await;
    let with = Params { cluster: true, ..with_tls(directory.path(), &address) };
    let (handler, env) = handler(with.clone()).await;
    assert_eq!(granted(&*handler, "aq", 2).await, 2);
    assert!(users(&server).await.contains("user=ann"), "{}", users(&server).await);
    env.tasks.shut_down().await;
    let (handler, env) = super::handler(Params { tls: None, ..with }).await;
    let text = allocate(&*handler, "none", "bq", 1, true).await.unwrap_err().message;
    assert!(text.starts_with("Redis does not answer: the cluster "), "{text}");
    env.tasks.shut_down().await;
}
