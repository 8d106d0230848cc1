use std::collections::BTreeMap;

use super::chain::Chain;
use super::*;
use crate::tests::TestServer;

/// A chain in an environment with these variables.
fn chain(options: &AwsOptions, variables: &[(&str, &str)]) -> Chain {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let tls = mixer_net::tls::ClientTlsOptions::default();
    Chain::new(options, "eu-west-1", &tls, &|name| variables.get(name).cloned()).unwrap()
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn expiring(id: &str, end: &str) -> String {
    json(&format!(
        r#"{{"AccessKeyId": "{id}", "SecretAccessKey": "s", "Token": "t", "Expiration": "{end}"}}"#
    ))
}

#[tokio::test]
async fn the_environment_precedes_the_files_which_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("credentials");
    let text = |id: &str| {
        format!(
            "[default]\naws_access_key_id = none\n[mesh]\naws_access_key_id = {id}\naws_secret_access_key = s\n"
        )
    };
    std::fs::write(&file, text("first")).unwrap();
    let path = file.display().to_string();
    let variables = [("AWS_SHARED_CREDENTIALS_FILE", path.as_str()), ("AWS_PROFILE", "mesh")];
    let mut of_file = chain(&AwsOptions::default(), &variables);
    let first = of_file.key().await.unwrap();
    assert_eq!((first.id.as_str(), first.token), ("first", None));
    std::fs::write(directory.path().join("new"), text("second, longer")).unwrap();
    std::fs::rename(directory.path().join("new"), &file).unwrap();
    assert_eq!(of_file.key().await.unwrap().id, "second, longer");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(of_file.key().await.unwrap().id, "second, longer", "a file that is away is being replaced");
    let keys = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "hunter2"), ("AWS_SESSION_TOKEN", "t")];
    let mut of_environment = chain(&AwsOptions::default(), &[&variables[..], &keys[..]].concat());
    let key = of_environment.key().await.unwrap();
    assert_eq!((key.id.as_str(), key.secret.expose()), ("A", "hunter2"));
    assert!(key.token.is_some() && !format!("{of_environment:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_container_gets_its_key_and_the_next_before_it_expires() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "authorized\n").unwrap();
    let answers = [
        expiring("one", "2000-01-01T00:00:00Z"),
        expiring("two", "2100-01-01T00:00:00Z"),
        expiring("three", ""),
    ];
    let mut server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let url = format!("http://127.0.0.1:{}/get?x=1", server.port);
    let path = token.display().to_string();
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path.as_str()),
    ];
    let mut chain = chain(&AwsOptions::default(), &variables);
    assert_eq!(chain.key().await.unwrap().id, "one");
    for _ in 0..2 {
        assert_eq!(chain.key().await.unwrap().id, "two");
    }
    chain.refused();
    assert_eq!(chain.key().await.unwrap().id, "three");
    let request = server.received.recv().await.unwrap();
    assert!(
        request.starts_with("GET /get?x=1 HTTP/1.1") && request.contains("authorization: authorized"),
        "{request}"
    );
}

/// The token of the server is not for whoever a handler names.
#[tokio::test]
async fn an_endpoint_of_the_configuration_does_not_get_the_token_of_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "authorized\n").unwrap();
    let path = token.display().to_string();
    for variable in ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN"] {
        let answer = expiring("one", "2100-01-01T00:00:00Z");
        let mut server = TestServer::start(&[answer.as_str()], None).await;
        let options = AwsOptions {
            container_endpoint: format!("http://127.0.0.1:{}/get", server.port),
            ..AwsOptions::default()
        };
        let mut chain = chain(&options, &[(variable, path.as_str())]);
        assert_eq!(chain.key().await.unwrap().id, "one");
        let request = server.received.recv().await.unwrap();
        assert!(!request.contains("authorization"), "{request}");
    }
}

#[tokio::test]
async fn an_instance_gets_the_key_of_its_role() {
    let answers = [json("session"), json("mixer\n"), expiring("role", "2100-01-01T00:00:00Z")];
    let mut server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let url = format!("http://127.0.0.1:{}", server.port);
    let mut found = chain(&AwsOptions::default(), &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())]);
    assert_eq!(found.key().await.unwrap().id, "role");
    for (start, header) in [
        ("PUT /latest/api/token", "x-aws-ec2-metadata-token-ttl-seconds: 21600"),
        ("GET /latest/meta-data/iam/security-credentials/ ", "x-aws-ec2-metadata-token: session"),
        ("GET /latest/meta-data/iam/security-credentials/mixer ", "x-aws-ec2-metadata-token: session"),
    ] {
        let request = server.received.recv().await.unwrap();
        assert!(request.starts_with(start) && request.contains(header), "{request}");
    }
    let mut none = chain(&AwsOptions::default(), &[("AWS_EC2_METADATA_DISABLED", "true")]);
    let why = none.key().await.unwrap_err();
    let start =
        "no access key: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY nor profile `default` in ";
    assert!(
        why.starts_with(start) && why.ends_with("; the instance metadata service is switched off"),
        "{why}"
    );
}

/// The environment of a server is that of everything in it.
#[tokio::test]
async fn what_the_configuration_names_precedes_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("credentials");
    std::fs::write(&file, "[mesh]\naws_access_key_id=MESH\naws_secret_access_key=s\n").unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let options =
        AwsOptions { credentials_file: file.clone(), profile: "mesh".to_owned(), ..AwsOptions::default() };
    assert_eq!(chain(&options, &keys).key().await.unwrap().id, "MESH");
    // No other identity takes its place.
    let options = AwsOptions { profile: "other".to_owned(), ..options };
    let why = chain(&options, &keys).key().await.unwrap_err();
    assert_eq!(why, format!("no access key: profile `other` in `{}` has none", file.display()));
    let server = TestServer::start(&[&expiring("container", "")], None).await;
    let container_endpoint = format!("http://127.0.0.1:{}/", server.port);
    let options = AwsOptions { container_endpoint, ..AwsOptions::default() };
    assert_eq!(chain(&options, &keys).key().await.unwrap().id, "container");
}

/// As AWS's own tools: pods of EKS have both when an image brings a file.
#[tokio::test]
async fn the_role_of_the_environment_precedes_the_default_profile() {
    let directory = tempfile::tempdir().unwrap();
    let (file, token) = (directory.path().join("credentials"), directory.path().join("token"));
    std::fs::write(&file, "[default]\naws_access_key_id=FILE\naws_secret_access_key=s\n").unwrap();
    std::fs::write(&token, "jwt").unwrap();
    let server = TestServer::start(&[&assumed("role")], None).await;
    let (url, file, token) = (
        format!("http://127.0.0.1:{}", server.port),
        file.display().to_string(),
        token.display().to_string(),
    );
    let variables = [
        ("AWS_SHARED_CREDENTIALS_FILE", file.as_str()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
        ("AWS_ROLE_ARN", "arn"),
        ("AWS_ENDPOINT_URL_STS", url.as_str()),
    ];
    assert_eq!(chain(&AwsOptions::default(), &variables).key().await.unwrap().id, "role");
}

#[tokio::test]
async fn a_named_token_service_precedes_that_of_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "jwt").unwrap();
    let mut server = TestServer::start(&[&assumed("role")], None).await;
    let path = token.display().to_string();
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", path.as_str()),
        ("AWS_ROLE_ARN", "arn"),
        ("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1"),
    ];
    let sts_endpoint = format!("http://127.0.0.1:{}/sts", server.port);
    let options = AwsOptions { sts_endpoint, ..AwsOptions::default() };
    assert_eq!(chain(&options, &variables).key().await.unwrap().id, "role");
    let request = server.received.recv().await.unwrap();
    assert!(request.starts_with("POST /sts"), "{request}");
}

#[tokio::test]
async fn a_key_that_is_valid_serves_while_the_next_cannot_be_had_and_no_request_waits_for_an_attempt() {
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
    // Every attempt after the first one takes its time limit.
    let server = TestServer::start(&[&expiring("one", &end.to_string()), ""], None).await;
    let container_endpoint = format!("http://127.0.0.1:{}/", server.port);
    let mut chain = chain(&AwsOptions { container_endpoint, ..AwsOptions::default() }, &[]);
    assert_eq!(chain.key().await.unwrap().id, "one");
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    assert_eq!(chain.key().await.unwrap().id, "one");
    let next = tokio::time::timeout(std::time::Duration::from_millis(200), chain.key()).await;
    assert_eq!(next.expect("it does not wait").unwrap().id, "one");
}

/// An answer of the Security Token Service.
fn assumed(id: &str) -> String {
    json(&format!(
        "<R><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t+/=</SessionToken>\
         <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></R>"
    ))
}

#[tokio::test]
async fn a_token_of_an_identity_provider_is_exchanged_for_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "jwt.of/kubernetes\n").unwrap();
    let denied = "<E><Error><Code>AccessDenied</Code><Message>not you</Message></Error></E>";
    let denied = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{denied}", denied.len());
    let answers = [denied, assumed("one"), assumed("two")];
    let mut server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let url = format!("http://127.0.0.1:{}", server.port);
    let path = token.display().to_string();
    let arn = "arn:aws:iam::1:role/mixer";
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", path.as_str()),
        ("AWS_ROLE_ARN", arn),
        ("AWS_ROLE_SESSION_NAME", "pod"),
        ("AWS_ENDPOINT_URL_STS", url.as_str()),
    ];
    let mut chain = chain(&AwsOptions::default(), &variables);
    assert_eq!(
        chain.key().await.unwrap_err(),
        "no access key: role `arn:aws:iam::1:role/mixer`: AccessDenied: not you"
    );
    let key = chain.key().await.unwrap();
    assert_eq!((key.id.as_str(), key.token.unwrap().expose()), ("one", "t+/="));
    assert_eq!(chain.key().await.unwrap().id, "one");
    chain.refused();
    assert_eq!(chain.key().await.unwrap().id, "two");
    let request = server.received.recv().await.unwrap();
    let body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fmixer&\
                RoleSessionName=pod&WebIdentityToken=jwt.of%2Fkubernetes";
    assert!(request.ends_with(body) && !request.contains("authorization"), "{request}");
}

#[tokio::test]
async fn a_role_of_a_profile_is_assumed_with_its_source_and_again_when_the_profile_changes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let text = |arn: &str| {
        format!(
            "[default]\nrole_arn={arn}\nsource_profile=keys\n[profile keys]\naws_access_key_id=BASE\naws_secret_access_key=s\n"
        )
    };
    std::fs::write(&file, text("first")).unwrap();
    let answers = [assumed("one"), assumed("two")];
    let mut server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let (url, path) = (format!("http://127.0.0.1:{}", server.port), file.display().to_string());
    let variables = [("AWS_CONFIG_FILE", path.as_str()), ("AWS_ENDPOINT_URL", url.as_str())];
    let mut chain = chain(&AwsOptions::default(), &variables);
    assert_eq!((chain.key().await.unwrap().id, chain.key().await.unwrap().id), ("one".into(), "one".into()));
    std::fs::write(&file, text("second, longer")).unwrap();
    assert_eq!(chain.key().await.unwrap().id, "two");
    let request = server.received.recv().await.unwrap();
    assert!(
        request.contains("Credential=BASE/") && request.contains("/eu-west-1/sts/aws4_request"),
        "{request}"
    );
    assert!(request.contains("Action=AssumeRole&") && request.contains("RoleSessionName=mixer"), "{request}");
}

#[test]
fn endpoints_and_regions_are_those_of_the_environment_or_the_public_ones() {
    let endpoint = |region: &str, variables: &[(&str, &str)]| {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        endpoint(&["LOGS", "CLOUDWATCH_LOGS"], "logs", region, &find)
    };
    assert_eq!(endpoint("eu-west-1", &[]), "https://logs.eu-west-1.amazonaws.com");
    assert_eq!(endpoint("cn-north-1", &[]), "https://logs.cn-north-1.amazonaws.com.cn");
    let all = ("AWS_ENDPOINT_URL", "http://all");
    assert_eq!(endpoint("x", &[all]), "http://all");
    assert_eq!(endpoint("x", &[all, ("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", "http://logs")]), "http://logs");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, "[default]\nregion = eu-north-1\n").unwrap();
    let path = file.display().to_string();
    let of_file = |name: &str| (name == "AWS_CONFIG_FILE").then(|| path.clone());
    assert_eq!(region(&AwsOptions::default(), &of_file).as_deref(), Some("eu-north-1"));
    let of_variable = |name: &str| (name == "AWS_DEFAULT_REGION").then(|| "us-west-2".to_owned());
    assert_eq!(region(&AwsOptions::default(), &of_variable).as_deref(), Some("us-west-2"));
    assert_eq!(region(&AwsOptions::default(), &|_| None), None);
}
