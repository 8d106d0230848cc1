//! The environment of a handler: clock, files, an HTTP provider, a free port for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use mixer_config::message::Field as _;
use mixer_config::{MappingEntry, Node, NodeKind};
use mixer_engine::adapter::{Clock, SystemClock};
use parking_lot::Mutex;

use super::backend::Backend;
use crate::support::kube_api::KubeApi;

/// A manual clock. It starts at the edge of a tick.
pub(super) struct VirtualClock(AtomicU64);

const START: Duration = Duration::from_secs(1_600_000_000);

impl Clock for VirtualClock {
    fn unix_time(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.unix_time()
    }
}

/// The time of a case.
pub(super) enum Time {
    Real(Mutex<tokio::time::Instant>),
    Virtual(Arc<VirtualClock>),
}

impl Time {
    fn new(case: &Node) -> Self {
        match case.get("clock").and_then(Node::as_str) {
            Some("virtual") => Time::Virtual(Arc::new(VirtualClock(AtomicU64::new(START.as_nanos() as u64)))),
            _ => Time::Real(Mutex::new(tokio::time::Instant::now())),
        }
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Time::Real(_) => Arc::new(SystemClock),
            Time::Virtual(clock) => clock.clone(),
        }
    }

    /// The handler was built at this time.
    pub(super) fn start(&self) {
        if let Time::Real(start) = self {
            *start.lock() = tokio::time::Instant::now();
        }
    }

    /// Waits until `offset` after the start.
    pub(super) async fn reach(&self, offset: Duration) {
        match self {
            Time::Real(start) => {
                let at = *start.lock() + offset;
                tokio::time::sleep_until(at).await;
            }
            Time::Virtual(clock) => clock.0.store((START + offset).as_nanos() as u64, Ordering::SeqCst),
        }
    }
}

/// The response of the provider: status and body.
type Answer = Arc<Mutex<(u16, String)>>;

/// Everything that a case can refer to.
pub(super) struct Fixture {
    pub(super) time: Time,
    pub(super) directory: tempfile::TempDir,
    pub(super) metrics_port: u16,
    pub(super) backend: Option<Backend>,
    /// A cluster, and its kubeconfig.
    kubernetes: Option<(KubeApi, tempfile::NamedTempFile)>,
    provider: String,
    answer: Answer,
}

impl Fixture {
    pub(super) async fn new(case: &Node) -> Result<Self, String> {
        let answer = Answer::new(Mutex::new((404, String::new())));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|e| e.to_string())?;
        let provider = format!("http://{}", listener.local_addr().map_err(|e| e.to_string())?);
        let serve = |State(answer): State<Answer>| async move {
            let (status, body) = answer.lock().clone();
            (StatusCode::from_u16(status).unwrap_or_default(), body)
        };
        let router = Router::new().fallback(serve).with_state(answer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let backend = match case.get("backend") {
            Some(node) => Some(Backend::start(node).await?),
            None => None,
        };
        let kubernetes = case.get("kubernetes").map(cluster).transpose()?;
        // Bound and released: it is unlikely to be taken at once.
        let port =
            std::net::TcpListener::bind("[::]:0").and_then(|l| l.local_addr()).map_err(|e| e.to_string())?;
        let fixture = Self {
            time: Time::new(case),
            directory: tempfile::tempdir().map_err(|e| e.to_string())?,
            metrics_port: port.port(),
            backend,
            kubernetes,
            provider,
            answer,
        };
        if let Some(node) = case.get("provider") {
            fixture.provide(node);
        }
        if let Some(resources) = case.get("resources") {
            fixture.write_resources(resources)?;
        }
        Ok(fixture)
    }

    /// The parameters of the handler, with the kubeconfig of the cluster.
    pub(super) fn params(&self, params: Option<&Node>) -> Option<Node> {
        let params = params.map(|params| self.fill_node(params));
        let Some((_, kubeconfig)) = &self.kubernetes else { return params };
        let path = NodeKind::String(kubeconfig.path().to_string_lossy().into());
        let entry = MappingEntry {
            key: "kubeconfigPath".into(),
            key_span: mixer_config::Span::default(),
            value: Node { kind: path, ..Node::default() },
        };
        let mut entries = params.as_ref().map(Node::entries).unwrap_or_default().to_vec();
        entries.push(entry);
        Some(Node { kind: NodeKind::Mapping(entries), ..Node::default() })
    }

    /// Changes the response of the provider.
    pub(super) fn provide(&self, node: &Node) {
        let status = match node.get("status").map(|n| &n.kind) {
            Some(NodeKind::Int(status)) => u16::try_from(*status).unwrap_or(500),
            _ => 200,
        };
        let body = node.get("body").and_then(Node::as_str).unwrap_or_default().to_owned();
        *self.answer.lock() = (status, body);
    }

    /// Replaces the documents below `${TMP}/cfg`, at once.
    pub(super) fn write_resources(&self, resources: &Node) -> Result<(), String> {
        let directory = self.directory.path().join("cfg");
        let documents: Vec<String> =
            resources.items().iter().map(|node| node.to_json().to_string()).collect();
        let write = || {
            std::fs::create_dir_all(&directory)?;
            let new = directory.join("new");
            std::fs::write(&new, documents.join("\n---\n"))?;
            std::fs::rename(new, directory.join("all.yaml"))
        };
        write().map_err(|error: std::io::Error| error.to_string())
    }

    /// A text with substituted placeholders.
    pub(super) fn fill(&self, text: &str) -> String {
        let backend = self.backend.as_ref().map_or("127.0.0.1:9", |b| &b.address);
        text.replace("${TMP}", &self.directory.path().to_string_lossy())
            .replace("${PROVIDER}", &self.provider)
            .replace("${BACKEND}", backend)
    }

    /// A tree with substituted placeholders in all strings.
    pub(super) fn fill_node(&self, node: &Node) -> Node {
        let kind = match &node.kind {
            NodeKind::String(text) => NodeKind::String(self.fill(text).into()),
            NodeKind::Sequence(items) => {
                NodeKind::Sequence(items.iter().map(|i| self.fill_node(i)).collect())
            }
            NodeKind::Mapping(entries) => NodeKind::Mapping(
                entries
                    .iter()
                    .map(|e| MappingEntry { value: self.fill_node(&e.value), ..e.clone() })
                    .collect(),
            ),
            other => other.clone(),
        };
        Node { kind, span: node.span }
    }

    /// Name and lines of every file in the directory.
    pub(super) fn lines(&self) -> Result<serde_json::Value, String> {
        let mut files = serde_json::Map::new();
        self.collect_lines(self.directory.path(), &mut files).map_err(|e| e.to_string())?;
        Ok(files.into())
    }

    fn collect_lines(
        &self,
        directory: &std::path::Path,
        files: &mut serde_json::Map<String, serde_json::Value>,
    ) -> std::io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                self.collect_lines(&path, files)?;
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let lines =
                if text.is_empty() { Vec::new() } else { text.split('\n').map(str::to_owned).collect() };
            let name = path.strip_prefix(self.directory.path()).unwrap_or(&path);
            files.insert(name.to_string_lossy().into_owned(), lines.into());
        }
        Ok(())
    }

    /// Status and non-empty lines of the metrics endpoint.
    pub(super) async fn scrape(&self) -> Result<serde_json::Value, String> {
        mixer_net::tls::install_crypto_provider();
        let client = reqwest::Client::builder().no_proxy().build().map_err(|e| e.to_string())?;
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics_port);
        let response = client.get(url).send().await.map_err(|e| format!("{e:?}"))?;
        let status = response.status().as_u16();
        let body = response.text().await.map_err(|e| e.to_string())?;
        let lines: Vec<&str> = body.lines().filter(|line| !line.is_empty()).collect();
        Ok(serde_json::json!({"status": status, "lines": lines}))
    }
}

/// A cluster with these objects.
fn cluster(objects: &Node) -> Result<(KubeApi, tempfile::NamedTempFile), String> {
    let api = KubeApi::start();
    objects.items().iter().for_each(|object| api.put(object.to_json()));
    let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    std::fs::write(file.path(), api.kubeconfig()).map_err(|e| e.to_string())?;
    Ok((api, file))
}
