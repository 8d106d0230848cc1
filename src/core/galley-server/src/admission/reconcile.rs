//! Keeps the `ValidatingWebhookConfiguration` of the cluster as it should be. Spec: galley.md, 19.7.
//!
//! With a file, its webhooks are those of the cluster, which is created if it is missing (Galley 1.3). Without one, the live object is
//! completed and never created (Galley 1.5). In both modes a webhook fails open until it is proved that it refuses: until then an
//! unreachable Galley would keep every resource out of the cluster.

mod content;

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use mixer_base::metrics::{Family, Metrics};
use mixer_base::regular_file;
use mixer_kube::{Client, Error, PartialObject, Reflector, Resource, Selection, Versioned};

use super::ValidationOptions;
use content::{Desired, Owner, Policy};

/// How often files, and what a proof needs, are looked at.
const INTERVAL: Duration = Duration::from_millis(500);
/// The pause after a failure, and between two looks at the service.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest file, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Most webhook configurations of a cluster that are followed.
const MAX_OBJECTS: usize = 1000;
/// Media type of objects.
const JSON: &str = "application/json";

/// What is kept as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// The name of the webhook configuration.
    pub webhook_name: String,
    /// What it should be, YAML; empty: the live one is completed.
    pub config_file: PathBuf,
    /// The root by which API servers know the webhook.
    pub ca_file: PathBuf,
    /// The namespace of deployment and service.
    pub namespace: String,
    /// The deployment that owns the object.
    pub deployment: String,
    /// The service whose endpoints answer reviews.
    pub service: String,
}

impl ReconcileOptions {
    /// Of the settings of the webhook.
    pub fn of(validation: &ValidationOptions) -> Self {
        Self {
            webhook_name: validation.webhook_name.clone(),
            config_file: validation.webhook_config_file.clone(),
            ca_file: validation.ca_file.clone(),
            namespace: validation.deployment_namespace.clone(),
            deployment: validation.deployment_name.clone(),
            service: validation.service_name.clone(),
        }
    }
}

/// Reconciles one webhook configuration.
pub struct Reconciler {
    client: Client,
    options: ReconcileOptions,
    metrics: Arc<Metrics>,
}

/// What the loop knows.
#[derive(Default)]
struct Progress {
    /// The last content of the files that could be used.
    desired: Option<Desired>,
    /// The hash of the files that were read last.
    files: Option<u64>,
    /// Whether the webhook was seen to refuse.
    is_proved: bool,
}

impl Reconciler {
    /// Nothing is asked before it runs.
    pub fn new(client: Client, options: ReconcileOptions, metrics: Arc<Metrics>) -> Self {
        Self { client, options, metrics }
    }

    /// Runs until it is dropped. What fails is tried again.
    pub async fn run(&self) {
        let resource = self.served_version().await;
        self.wait_for_service().await;
        let (live, store) = Versioned::<PartialObject>::new(MAX_OBJECTS);
        let selection = Selection::of("ValidatingWebhookConfiguration", resource.clone()).metadata_only();
        let mut reflector = Reflector::new(self.client.clone(), selection, store);
        tokio::select! {
            _ = reflector.run() => {}
            () = self.follow(&resource, &live) => {}
        }
    }

    /// The version of the API that the cluster serves.
    async fn served_version(&self) -> Resource {
        const PLURAL: &str = "validatingwebhookconfigurations";
        loop {
            for version in ["v1", "v1beta1"] {
                let path = format!("/apis/admissionregistration.k8s.io/{version}");
                match self.client.get::<Value>(&path, JSON).await {
                    Ok(_) => return Resource::new("admissionregistration.k8s.io", version, PLURAL),
                    Err(error) if is_missing(&error) => {}
                    Err(error) => self.failed("look at the API", &error),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until API servers can reach the webhook: until an endpoint of its service is ready.
    async fn wait_for_service(&self) {
        let ReconcileOptions { namespace, service, .. } = &self.options;
        let path = format!("/api/v1/namespaces/{namespace}/endpoints/{service}");
        loop {
            match self.client.get::<Value>(&path, JSON).await {
                Ok(endpoints) if has_ready_address(&endpoints) => return,
                Ok(_) => tracing::debug!("the service {namespace}/{service} has no ready endpoint yet"),
                Err(error) => self.failed("look at the service", &error),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow(&self, resource: &Resource, live: &Versioned<PartialObject>) {
        let mut progress = Progress::default();
        let mut seen = live.after(0).await.version;
        let mut is_due = true;
        loop {
            self.read_files(&mut progress, &mut is_due).await;
            if is_due {
                is_due = match self.reconcile(resource, &mut progress).await {
                    Ok(is_complete) => !is_complete,
                    Err(error) => {
                        self.failed("update the webhook configuration", &error);
                        tokio::time::sleep(PAUSE).await;
                        true
                    }
                };
            }
            tokio::select! {
                now = live.after(seen) => {
                    seen = now.version;
                    is_due = true;
                }
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// Takes over what files have changed to. What cannot be used is reported once, and the last content stays. Files are read on a thread:
    /// one on a file system that hangs holds up this task alone.
    async fn read_files(&self, progress: &mut Progress, is_due: &mut bool) {
        let paths = [self.options.config_file.clone(), self.options.ca_file.clone()];
        let read = |path: PathBuf| match path.as_os_str().is_empty() {
            true => Ok(String::new()),
            false => regular_file::read_text(&path, MAX_FILE)
                .map_err(|error| format!("{}: {error}", path.display())),
        };
        // It fails when the process ends, or by a panic, which is logged.
        let Ok([config, ca]) = tokio::task::spawn_blocking(move || paths.map(read)).await else { return };
        let mut hasher = DefaultHasher::new();
        for text in [&config, &ca] {
            let (Ok(text) | Err(text)) = text;
            hasher.write(text.as_bytes());
            hasher.write_u8(u8::from(text.is_empty()));
        }
        let files = Some(hasher.finish());
        if progress.files == files {
            return;
        }
        progress.files = files;
        self.metrics.counter(Family::GalleyValidationConfigLoad, &[]).increment();
        let has_file = !self.options.config_file.as_os_str().is_empty();
        let desired = config.and_then(|config| {
            let ca = ca?;
            Desired::read(has_file.then_some(&config), &ca)
        });
        match desired {
            Ok(desired) => {
                *is_due |= progress.desired.as_ref() != Some(&desired);
                progress.desired = Some(desired);
            }
            Err(why) => {
                self.metrics.counter(Family::GalleyValidationConfigLoadErrors, &["unusable"]).increment();
                tracing::error!("the webhook configuration stays as it was: {why}");
            }
        }
    }

    /// One step towards what should be; whether nothing is left to do.
    async fn reconcile(&self, resource: &Resource, progress: &mut Progress) -> Result<bool, Error> {
        let Some(desired) = &progress.desired else { return Ok(false) };
        let collection = resource.path(None);
        let path = format!("{collection}/{}", self.options.webhook_name);
        let live = match self.client.get::<Value>(&path, JSON).await {
            Ok(live) => Some(live),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let owner = self.owner().await?;
        let policy = if progress.is_proved { Policy::AsDesired } else { Policy::Ignore };
        let version = &resource.version;
        let Some(next) = desired.applied(live.as_ref(), &self.options.webhook_name, version, owner, policy)
        else {
            tracing::warn!("there is no webhook configuration {} to complete", self.options.webhook_name);
            self.metrics.counter(Family::GalleyValidationConfigUpdateErrors, &["missing"]).increment();
            return Ok(true);
        };
        if live.as_ref() != Some(&next) {
            let (method, path) = match live {
                Some(_) => (Method::PUT, path),
                None => (Method::POST, collection),
            };
            let body = Bytes::from(next.to_string());
            self.client.send::<Value>(method, &path, Some((JSON, body))).await?;
            self.metrics.counter(Family::GalleyValidationConfigUpdates, &[]).increment();
            tracing::info!("the webhook configuration {} was updated", self.options.webhook_name);
        }
        if progress.is_proved {
            return Ok(true);
        }
        progress.is_proved = self.refuses_invalid().await;
        if !progress.is_proved {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(false)
    }

    /// The deployment as the owner of the object; `None` if there is none.
    async fn owner(&self) -> Result<Option<Owner>, Error> {
        let ReconcileOptions { namespace, deployment, .. } = &self.options;
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}");
        match self.client.get::<Value>(&path, JSON).await {
            Ok(found) => Ok(Owner::of_deployment(&found)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the API server asks the webhook, and is refused: a gateway without servers is not valid. It is not created.
    async fn refuses_invalid(&self) -> bool {
        let namespace = &self.options.namespace;
        let path = format!("/apis/networking.istio.io/v1alpha3/namespaces/{namespace}/gateways?dryRun=All");
        let gateway = json!({
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "Gateway",
            "metadata": { "name": "invalid-gateway", "namespace": namespace },
            "spec": {},
        });
        let body = Bytes::from(gateway.to_string());
        match self.client.send::<Value>(Method::POST, &path, Some((JSON, body))).await {
            Err(Error::Refused { status, .. }) if status.message.contains("denied the request") => {
                tracing::info!("the webhook refuses what is invalid; from now on it fails closed");
                true
            }
            // Without the kind there is nothing to prove it with.
            Err(error) if is_missing(&error) => true,
            Err(error) => {
                tracing::debug!("the webhook is not proved to refuse yet: {error}");
                false
            }
            Ok(_) => {
                tracing::debug!("an invalid gateway was accepted: the webhook is not asked yet");
                false
            }
        }
    }

    fn failed(&self, what: &str, error: &Error) {
        let reason = match error {
            Error::Refused { .. } => "refused",
            Error::Timeout { .. } | Error::Unreachable { .. } => "unreachable",
            _ => "malformed",
        };
        self.metrics.counter(Family::GalleyValidationConfigUpdateErrors, &[reason]).increment();
        mixer_base::warn_limited!(1, "cannot {what}: {error}");
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Refused { status, .. } if status.code == 404)
}

fn has_ready_address(endpoints: &Value) -> bool {
    let subsets = endpoints.get("subsets").and_then(Value::as_array);
    subsets.into_iter().flatten().any(|subset| {
        subset.get("addresses").and_then(Value::as_array).is_some_and(|addresses| !addresses.is_empty())
    })
}
