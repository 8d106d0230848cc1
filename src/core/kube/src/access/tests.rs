//! Tests of kubeconfigs and of service accounts.

use std::path::Path;

use super::*;

fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: other\n  context: {{cluster: no}}\n- name: here\n  \
         context: {{cluster: c, user: u, namespace: shop}}\nclusters:\n- name: c\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n"
    )
}

fn refused(text: &str) -> String {
    Access::of_text(text).load().err().unwrap().to_string()
}

#[test]
fn a_kubeconfig_says_where_the_cluster_is_and_who_asks() {
    let server = "server: 'https://api.example:6443/prefix'";
    let loaded = |user: &str| Access::of_text(config(server, user)).load().unwrap();
    let with = loaded("token: hunter2");
    assert_eq!(
        (with.server.as_str(), &*with.name()),
        ("https://api.example:6443/prefix", "api.example:6443")
    );
    assert_eq!(with.authorization.as_ref().unwrap(), "Bearer hunter2");
    assert!(with.authorization.as_ref().unwrap().is_sensitive());
    assert_eq!(loaded("username: ann, password: pw").authorization.unwrap(), "Basic YW5uOnB3");
    assert!(loaded("").authorization.is_none());
    let data = loaded("client-certificate-data: YQ==, client-key-data: Yg==");
    assert_eq!(data.tls.identity, Some((b"a".to_vec(), b"b".to_vec())));
    assert!(!with.has_connections_of(&data) && with.has_connections_of(&loaded("token: other")));
    assert!(!format!("{:?}", Access::of_text("token: hunter2")).contains("hunter2"));
}

#[test]
fn what_a_kubeconfig_lacks_is_named() {
    let server = "server: 'https://h'";
    for (text, expected) in [
        (String::new(), "it is no kubeconfig: "),
        ("{}".to_owned(), "the kubeconfig has no current-context"),
        ("[1".to_owned(), "it is no kubeconfig: "),
        ("current-context: x".to_owned(), "the kubeconfig has no context `x`"),
        (config("", ""), "the server `` is no URL: "),
        (config("server: 'ftp://h'", ""), "the server `ftp://h` is not http://HOST or https://HOST"),
        (config(server, "token: [hunter2]"), "it is no kubeconfig: user `u`: a field has another type"),
        (config(server, "client-key-data: Yg=="), "a client certificate and its key belong together"),
        (config(server, "client-key-data: '%'"), "client-key-data is no base64"),
        (config(server, "token: \"a\\nb\""), "the credential is no value of a header"),
        (config(&format!("{server}, insecure-skip-tls-verify: true"), ""), "insecure-skip-tls-verify: name"),
        (config(&format!("{server}, tls-server-name: x"), ""), "tls-server-name: name"),
        (config(server, "exec: {command: aws}"), "exec: write a token"),
        (config(server, "auth-provider: {name: gcp}"), "auth-provider: write a token"),
        (config(server, "as: root"), "as: authenticate as that user"),
        (config(server, "tokenFile: /etc/hostname"), "tokenFile: a kubeconfig in a secret may name no file"),
        (config(server, "client-certificate: x"), "client-certificate: a kubeconfig in a secret may name no"),
        (
            config(&format!("{server}, certificate-authority: x"), ""),
            "certificate-authority: a kubeconfig in",
        ),
    ] {
        let text = refused(&text);
        assert!(text.contains(expected) && !text.contains("hunter2"), "{text}");
    }
    let text = Access::of_file("/none/such").load().err().unwrap().to_string();
    assert!(text.starts_with("cannot read `/none/such`: "), "{text}");
}

#[test]
fn files_are_those_beside_the_kubeconfig_and_their_changes_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), directory.path().join(name)).unwrap();
    };
    put("token", "first\n");
    put("ca.pem", "root");
    put("kubeconfig", &config("server: 'https://h', certificate-authority: ca.pem", "tokenFile: token"));
    let access = Access::of_file(directory.path().join("kubeconfig"));
    let first = access.load().unwrap();
    assert_eq!(first.authorization.as_ref().unwrap(), "Bearer first");
    assert_eq!(first.tls.roots.as_deref(), Some(&b"root"[..]));
    assert!(!first.is_outdated());
    put("token", "second");
    assert!(first.is_outdated());
    let second = access.load().unwrap();
    assert_eq!(second.authorization.as_ref().unwrap(), "Bearer second");
    assert!(second.has_connections_of(&first) && !second.is_outdated());
    put("ca.pem", "other root");
    assert!(second.is_outdated() && !access.load().unwrap().has_connections_of(&second));
    std::fs::remove_file(directory.path().join("token")).unwrap();
    assert!(second.is_outdated() && access.load().is_err());
}

#[test]
fn a_pod_has_a_service_account() {
    let directory = tempfile::tempdir().unwrap();
    let variables = |host: &'static str, port: &'static str| {
        move |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some(host.to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some(port.to_owned()),
            _ => None,
        }
    };
    let access = |host, port| pod::access(variables(host, port), directory.path());
    assert!(access("", "443").unwrap_err().to_string().starts_with("this process runs in no pod: "));
    assert!(access("10.0.0.1", "443").unwrap().load().err().unwrap().to_string().contains("/token`: "));
    std::fs::write(directory.path().join("token"), "t\n").unwrap();
    std::fs::write(directory.path().join("ca.crt"), "root").unwrap();
    let loaded = access("10.0.0.1", "443").unwrap().load().unwrap();
    assert_eq!(
        (&*loaded.name(), loaded.authorization.unwrap().to_str().unwrap()),
        ("10.0.0.1:443", "Bearer t")
    );
    assert_eq!(access("fd00::1", "6443").unwrap().load().unwrap().server.as_str(), "https://[fd00::1]:6443/");
    assert!(Path::new(pod::DIRECTORY).is_absolute());
}
