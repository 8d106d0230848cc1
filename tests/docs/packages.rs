//! The files of deploy/: their syntax, and their flags as `mixer server` takes them.

use std::os::unix::fs::PermissionsExt as _;

use serde_yaml::Value;

use crate::support::{DEADLINE, Server, programs, run, run_mixer, wait_for};
use crate::{read, repository};

/// The documents of a YAML text.
fn documents(text: &str) -> Vec<Value> {
    let parsed = serde_yaml::Deserializer::from_str(text).map(<Value as serde::Deserialize>::deserialize);
    parsed.map(|document| document.unwrap_or_else(|error| panic!("{error}:\n{text}"))).collect()
}

/// The text at a path such as `a.b.0`.
fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, name| match name.parse::<usize>() {
        Ok(index) => &value[index],
        Err(_) => &value[name],
    })
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_sequence().unwrap_or_else(|| panic!("no list: {value:?}"));
    items.iter().map(|item| item.as_str().unwrap_or_else(|| panic!("no text: {item:?}")).to_owned()).collect()
}

/// The settings that `mixer ARGUMENTS…` has, which must be valid.
fn settings(arguments: &[String]) -> Value {
    let arguments: Vec<String> = arguments.iter().cloned().chain(["--print-config".to_owned()]).collect();
    let ran = run(&programs().path("mixer"), &arguments, &[], None, None, crate::support::DEADLINE)
        .expect("it ends");
    assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    serde_yaml::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

/// The instructions of the last stage of the Dockerfile.
pub(crate) fn last_stage() -> Vec<(String, String)> {
    let text = read("deploy/docker/Dockerfile");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut stage = Vec::new();
    for line in lines {
        let (instruction, rest) = line.split_once(' ').expect("an instruction and its arguments");
        if instruction == "FROM" {
            stage.clear();
        }
        stage.push((instruction.to_owned(), rest.to_owned()));
    }
    stage
}

/// The arguments of an instruction of the last stage.
pub(crate) fn instruction(name: &str) -> String {
    let stage = last_stage();
    let found = stage.iter().find(|(instruction, _)| instruction == name);
    found.unwrap_or_else(|| panic!("no {name} in {stage:?}")).1.clone()
}

/// Program and arguments of a container of the image.
pub(crate) fn image_command() -> Vec<String> {
    let list =
        |name: &str| -> Vec<String> { serde_json::from_str(&instruction(name)).expect("a list in JSON") };
    [list("ENTRYPOINT"), list("CMD")].concat()
}

#[test]
fn the_image_runs_the_server_as_nobody() {
    assert!(instruction("FROM").starts_with("gcr.io/distroless/cc-"), "no shell in the image");
    assert_eq!(instruction("USER"), "65532:65532");
    let command = image_command();
    assert_eq!(command[0], "/usr/bin/mixer");
    let settings = settings(&command[1..]);
    let ports: Vec<String> = ["port", "monitoring-port", "metrics-port"]
        .map(|name| settings[name].as_u64().expect("a port").to_string())
        .into();
    assert_eq!(instruction("EXPOSE"), ports.join(" "), "the ports of the server");
    assert!(read("deploy/docker/Dockerfile").contains("cargo build --locked --release --bin mixer"));
}

/// What both ways to Kubernetes have: the pod of the server.
fn assert_pod(deployment: &Value) -> Value {
    let pod = at(deployment, "spec.template.spec");
    let container = at(pod, "containers.0");
    assert_eq!(at(pod, "securityContext.runAsNonRoot"), &Value::Bool(true));
    assert_eq!(at(pod, "securityContext.runAsUser"), &Value::from(65532));
    assert_eq!(at(container, "securityContext.readOnlyRootFilesystem"), &Value::Bool(true));
    assert_eq!(at(container, "securityContext.allowPrivilegeEscalation"), &Value::Bool(false));
    assert_eq!(texts(at(container, "securityContext.capabilities.drop")), ["ALL"]);
    let selector = at(deployment, "spec.selector.matchLabels");
    assert_eq!(selector, at(deployment, "spec.template.metadata.labels"), "the pods that it selects");

    let settings = settings(&texts(&container["args"]));
    let ports = container["ports"].as_sequence().expect("ports");
    let port = |name: &str| {
        let found = ports.iter().find(|port| port["name"] == name);
        found.unwrap_or_else(|| panic!("no port {name}"))["containerPort"].clone()
    };
    assert_eq!(port("grpc"), settings["port"]);
    assert_eq!(port("monitoring"), settings["monitoring-port"]);
    assert_eq!(port("metrics"), settings["metrics-port"]);
    assert_eq!(at(deployment, "spec.template.metadata.annotations")["prometheus.io/port"], "15014");
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(at(&container[probe], "httpGet.path"), path);
        assert_eq!(at(&container[probe], "httpGet.port"), "monitoring");
    }
    // What the server writes to, and what it reads, is mounted.
    let mounted: Vec<String> = container["volumeMounts"]
        .as_sequence()
        .expect("mounts")
        .iter()
        .map(|mount| mount["mountPath"].as_str().expect("a path").to_owned())
        .collect();
    let named = ["config-cache", "tls-cert-file", "config-store-url"];
    for name in named {
        let Some(path) = settings[name].as_str().map(|path| path.trim_start_matches("fs://")) else {
            continue;
        };
        if path.starts_with('/') {
            assert!(
                mounted.iter().any(|mount| path.starts_with(mount.as_str())),
                "{name}: {path} is not mounted"
            );
        }
    }
    assert_keeps_a_cache(&texts(&container["args"]), &pod["volumes"], &container["volumeMounts"]);
    let seconds = |name: &str| -> u64 {
        settings[name].as_str().and_then(|text| text.strip_suffix('s')?.parse().ok()).expect("seconds")
    };
    let grace = at(pod, "terminationGracePeriodSeconds").as_u64().expect("seconds");
    assert!(
        grace > seconds("drain-delay") + seconds("shutdown-timeout"),
        "the server ends before it is killed"
    );
    settings
}

/// The server writes its cache into the volume as the kubelet makes it: an `emptyDir` of a pod with `fsGroup` may be written to by all.
fn assert_keeps_a_cache(arguments: &[String], volumes: &Value, mounts: &Value) {
    let mounts = mounts.as_sequence().expect("mounts");
    let volume = volumes.as_sequence().expect("volumes").iter().find(|volume| !volume["emptyDir"].is_null());
    let name = &volume.expect("a volume of the pod")["name"];
    let mount = mounts.iter().find(|mount| &mount["name"] == name).expect("it is mounted");
    let mount = mount["mountPath"].as_str().expect("a path");
    let directory = tempfile::tempdir().expect("a directory");
    let volume = directory.path().join("volume");
    std::fs::create_dir(&volume).expect("it is writable");
    std::fs::set_permissions(&volume, std::fs::Permissions::from_mode(0o2777)).expect("its own directory");
    let (volume, policy) = (volume.display().to_string(), repository("deploy/kubernetes/policy"));
    // Without certificates, which are not there.
    let placed = arguments.iter().filter(|argument| !argument.starts_with("--tls-"));
    let placed = placed.map(|argument| match argument.split_once('=') {
        Some(("--config-cache", path)) => format!("--config-cache={}", path.replacen(mount, &volume, 1)),
        Some(("--config-store-url", _)) => format!("--config-store-url=fs://{}", policy.display()),
        Some(("--drain-delay", _)) => "--drain-delay=0s".to_owned(),
        _ => argument.clone(),
    });
    let placed: Vec<String> = placed.collect();
    let server = Server::builder().native().with(&placed[1..]).start();
    let written = wait_for(DEADLINE, || std::fs::read_dir(&volume).ok()?.next().map(|_| ()));
    assert!(written.is_some(), "{arguments:?} writes no cache: {}", server.log());
    let degraded = server.metric("mixer_component_degraded{component=\"config-cache\"}");
    assert!(degraded == 0.0, "{arguments:?}: {}", server.log());
}

fn of_kind<'d>(documents: &'d [Value], kind: &str) -> &'d Value {
    documents.iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// Services, budgets and policies select the pods of the deployment.
fn assert_selected(all: &[Value]) {
    let labels = at(of_kind(all, "Deployment"), "spec.template.metadata.labels");
    assert_eq!(at(of_kind(all, "Service"), "spec.selector"), labels);
    assert_eq!(at(of_kind(all, "PodDisruptionBudget"), "spec.selector.matchLabels"), labels);
    for document in all.iter().filter(|document| document["kind"] == "NetworkPolicy") {
        assert_eq!(at(document, "spec.podSelector.matchLabels"), labels);
    }
    let account = &at(of_kind(all, "ServiceAccount"), "metadata.name");
    assert_eq!(&at(of_kind(all, "Deployment"), "spec.template.spec.serviceAccountName"), account);
}

#[test]
fn the_kubernetes_manifests_fit_the_server_and_each_other() {
    let kustomization = documents(&read("deploy/kubernetes/kustomization.yaml")).remove(0);
    let mut listed = texts(&kustomization["resources"]);
    let mut there: Vec<String> = std::fs::read_dir(repository("deploy/kubernetes"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| name.ends_with(".yaml") && name != "kustomization.yaml")
        .collect();
    listed.sort();
    there.sort();
    assert_eq!(listed, there, "resources of the kustomization");
    let all: Vec<Value> =
        listed.iter().flat_map(|name| documents(&read(&format!("deploy/kubernetes/{name}")))).collect();
    assert_selected(&all);
    let deployment = of_kind(&all, "Deployment");
    let settings = assert_pod(deployment);
    assert_eq!(settings["config-store-url"], "fs:///etc/mixer");
    // The policy is that of the generated map.
    let map = at(&kustomization, "configMapGenerator.0");
    assert_eq!(at(deployment, "spec.template.spec.volumes.0.configMap.name"), &map["name"]);
    for file in texts(&map["files"]) {
        assert!(repository("deploy/kubernetes").join(&file).is_file(), "{file}");
    }
    let policy = repository("deploy/kubernetes/policy");
    let ran = run_mixer(&["validate", "--strict", "--output", "plain", &policy.display().to_string()]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
}

/// The subset of Helm's templates that the chart uses; anything else is an error.
struct Rendering<'v> {
    values: &'v Value,
}

impl Rendering<'_> {
    /// The value of `.Values.a.b`, `.Release.Name`, `.` and the like.
    fn value(&self, name: &str, dot: &Value) -> Value {
        match name {
            "." => dot.clone(),
            ".Release.Name" => Value::from("shop-mixer"),
            ".Release.Namespace" => Value::from("shop"),
            ".Chart.AppVersion" => documents(&read("deploy/helm/mixer/Chart.yaml"))[0]["appVersion"].clone(),
            _ => {
                let path = name.strip_prefix(".Values.").unwrap_or_else(|| panic!("unknown: {name}"));
                let value = at(self.values, path);
                assert!(!value.is_null(), "values.yaml has no {path}");
                value.clone()
            }
        }
    }

    fn pipeline(&self, text: &str, dot: &Value) -> String {
        let mut stages = text.split('|').map(str::trim);
        let mut value = self.value(stages.next().expect("a value"), dot);
        for stage in stages {
            value = match stage.split_once(' ') {
                None if stage == "toJson" => Value::from(serde_json::to_string(&value).expect("JSON")),
                None if stage == "quote" => {
                    Value::from(serde_json::to_string(&text_of(&value)).expect("JSON"))
                }
                Some(("default", other)) if text_of(&value).is_empty() => self.value(other, dot),
                Some(("default", _)) => value,
                _ => panic!("unknown function: {stage}"),
            };
        }
        text_of(&value)
    }

    /// Renders until `{{ end }}` or the end; returns the rest.
    fn render<'t>(&self, mut rest: &'t str, dot: &Value, out: &mut String) -> &'t str {
        while let Some((before, after)) = rest.split_once("{{") {
            let (inside, after) = after.split_once("}}").expect("`}}`");
            let is_trimmed = inside.starts_with('-');
            out.push_str(if is_trimmed { before.trim_end() } else { before });
            assert!(!inside.ends_with('-'), "not in this subset: {inside}");
            rest = after;
            let action = inside.trim_start_matches('-').trim();
            if action == "end" {
                return rest;
            }
            match action.split_once(' ') {
                Some(("if", name)) => {
                    let value = self.value(name, dot);
                    let is_true = !matches!(&value, Value::Bool(false)) && !text_of(&value).is_empty();
                    let mut inner = String::new();
                    rest = self.render(rest, dot, &mut inner);
                    out.push_str(if is_true { &inner } else { "" });
                }
                Some(("range", name)) => {
                    let begin = rest;
                    for item in self.value(name, dot).as_sequence().expect("a list") {
                        rest = self.render(begin, item, out);
                    }
                    assert_ne!(rest, begin, "an empty list is not in this subset");
                }
                _ => out.push_str(&self.pipeline(action, dot)),
            }
        }
        out.push_str(rest);
        ""
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        other => panic!("no text: {other:?}"),
    }
}

/// The resources of the chart with these values in place of the defaults.
fn rendered(changes: &[(&str, Value)]) -> Vec<Value> {
    let mut values = documents(&read("deploy/helm/mixer/values.yaml")).remove(0);
    for (name, value) in changes {
        assert!(values.get(name).is_some(), "{name} is no value of the chart");
        values[*name] = value.clone();
    }
    let rendering = Rendering { values: &values };
    let templates = std::fs::read_dir(repository("deploy/helm/mixer/templates")).expect("a directory");
    let mut all = Vec::new();
    for entry in templates {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("it is readable");
        let mut out = String::new();
        rendering.render(&text, &Value::Null, &mut out);
        all.extend(documents(&out));
    }
    all
}

#[test]
fn the_chart_fits_the_server() {
    let all = rendered(&[]);
    assert_selected(&all);
    let settings = assert_pod(of_kind(&all, "Deployment"));
    assert_eq!(settings["tls-cert-file"], Value::Null);
    assert!(all.iter().all(|document| document["kind"] != "ClusterRole"), "no rights in the cluster");
    let map = of_kind(&all, "ConfigMap");
    assert_eq!(
        at(of_kind(&all, "Deployment"), "spec.template.spec.volumes.0.configMap.name"),
        at(map, "metadata.name")
    );
    // The policy is one.
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in map["data"].as_mapping().expect("files") {
        let path = directory.path().join(name.as_str().expect("a name"));
        std::fs::write(path, text.as_str().expect("a text")).expect("it is writable");
    }
    let ran =
        run_mixer(&["validate", "--strict", "--output", "plain", &directory.path().display().to_string()]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);

    let all = rendered(&[
        ("tlsSecret", "mixer-tls".into()),
        ("clusterPolicy", true.into()),
        ("store", "k8s://".into()),
    ]);
    let settings = assert_pod(of_kind(&all, "Deployment"));
    assert_eq!(settings["tls-cert-file"], "/etc/mixer-tls/tls.crt");
    assert_eq!(settings["config-store-url"], "k8s://");
    let role = of_kind(&all, "ClusterRole");
    assert_eq!(at(of_kind(&all, "ClusterRoleBinding"), "roleRef.name"), at(role, "metadata.name"));
    assert_eq!(at(of_kind(&all, "ServiceAccount"), "automountServiceAccountToken"), &Value::Bool(true));
    assert!(
        rendered(&[("clientLabel", "".into())]).iter().all(|document| document["kind"] != "NetworkPolicy")
    );
}

#[test]
fn the_unit_of_systemd_fits_the_server() {
    let text = read("deploy/systemd/mixer.service");
    let mut entries = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
        entries.push(line.split_once('=').unwrap_or_else(|| panic!("no setting: {line}")));
    }
    let value = |name: &str| {
        let mut found = entries.iter().filter(|(key, _)| *key == name);
        let value = found.next().unwrap_or_else(|| panic!("no {name}")).1;
        assert!(found.next().is_none(), "{name} is there twice");
        value
    };
    let mut words = value("ExecStart").split_whitespace().map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("/usr/bin/mixer"));
    let arguments: Vec<String> = words.collect();
    let settings = settings(&arguments);
    // Directories that systemd makes for the user of the service.
    for (name, root, directory) in [
        ("RuntimeDirectory", "/run", "pid-file"),
        ("StateDirectory", "/var/lib", "config-cache"),
        ("ConfigurationDirectory", "/etc", "config-store-url"),
    ] {
        let made = format!("{root}/{}", value(name));
        let used = settings[directory].as_str().expect("a path").trim_start_matches("fs://");
        assert!(used.starts_with(&made), "{directory}: {used} is not below {made}");
    }
    assert_eq!(value("Type"), "notify");
    assert_eq!(value("DynamicUser"), "yes");
    assert_eq!(value("CapabilityBoundingSet"), "");
}

#[test]
fn what_users_install_has_no_debug_information() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).expect("TOML");
    let release = &manifest["profile"]["release"];
    assert_eq!(release["debug"].as_bool(), Some(false));
    // The symbol table stays: profiles and stack traces have the names of functions from it.
    assert_eq!(release["strip"].as_str(), Some("debuginfo"));
    assert_eq!(manifest["profile"]["profiling"]["debug"].as_str(), Some("line-tables-only"));
}
