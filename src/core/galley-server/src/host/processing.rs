//! The component *processing*: the pipeline, and the port on which sinks are served.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use mixer_base::task::Task;
use mixer_engine::snapshot::SnapshotOptions;
use mixer_galley::Galley;
use mixer_galley::state::SourceState;
use mixer_mcp::{CallOut, ClientAuth, ClientOptions, Server, ServerOptions, Services, SourceOptions};
use mixer_net::tls::{ClientTlsOptions, ServerTlsOptions};

use super::{Start, collect, sources};
use crate::analysis::Analysing;
use crate::judge::EngineJudge;
use crate::kept_files::KeptFiles;
use crate::options::{HostOptions, ServingOptions, SinkAuth};

/// The condition that tells whether every collection was published.
pub(super) const SYNC: &str = "sync";
/// Its reason, before that of the sources.
pub(super) const NOT_PUBLISHED: &str = "not everything was published yet";
/// How often the state of sources is looked at.
const SOURCES_INTERVAL: Duration = Duration::from_millis(500);

impl Start<'_> {
    /// Spec: galley.md, 2.
    pub(super) async fn start_processing(&mut self, policy: SnapshotOptions) -> Result<Arc<Galley>, String> {
        let mut options = self.options.clone();
        options.processing.judge = Some(EngineJudge::new(policy));
        let kept_files = KeptFiles::of(&options, &self.metrics);
        options.processing.keeper = kept_files.clone().map(|kept| kept as Arc<dyn mixer_galley::Keeper>);
        if let Some(kept) = kept_files.clone() {
            self.components.started((), "configuration cache", async move |limit: Duration| {
                tokio::time::timeout(limit, kept.close()).await.is_ok()
            });
        }
        let options = &options;
        let served = self.emitters("server", "uninitialized");
        let synced = self.readiness.emitter(SYNC, NOT_PUBLISHED);
        let sources = sources::sources(options).await?;
        let source = mixer_mcp::Source::new(
            Arc::clone(self.publications.cache()),
            source_options(options)?,
            &self.metrics,
        )?;
        let call_outs = call_outs(&options.serving)?;
        let server = Server::bind(
            server_options(&options.serving)?,
            Services { source: Some(Arc::clone(&source)), ..Services::default() },
        );
        let server = server.map_err(|error| error.to_string())?;
        self.bound.sinks = server.local_address();
        let handle = tokio::runtime::Handle::current();
        let mut publications = Arc::clone(&self.publications) as Arc<dyn mixer_galley::Distributor>;
        if options.analyses {
            publications = Arc::new(Analysing::new(publications, handle.clone()));
        }
        let galley = Galley::start(options.processing.clone(), sources, publications, &handle);
        let galley = Arc::new(galley.map_err(|error| error.to_string())?);
        let stopped = Arc::clone(&galley);
        self.components.started((), "pipeline", async move |_| {
            stopped.stop().await;
            true
        });
        let collector = collect::PipelineCollector::new(&galley, options.metric_per_resource);
        self.components.collects((), "counts of the pipeline", &self.metrics, collector);
        self.serve_sinks(server);
        for sink in call_outs {
            self.call_out(CallOut::new(Arc::clone(&source), sink));
        }
        served.iter().for_each(|emitter| emitter.set(Ok(())));
        self.watch_sources(&galley, synced, kept_files);
        Ok(galley)
    }

    fn serve_sinks(&mut self, server: Server) {
        let stop = CancellationToken::new();
        let until = stop.clone();
        // What accepts connections, and these themselves, are supervised by the server.
        let serving = mixer_base::task::Group::new("port of sinks").spawn(server.serve(until));
        self.components.started((), "port of sinks", async move |_| {
            stop.cancel();
            serving.await.is_ok()
        });
    }

    fn call_out(&mut self, call_out: CallOut) {
        let (stop, call_out) = (CancellationToken::new(), Arc::new(call_out));
        let until = stop.clone();
        let run = move || {
            let (call_out, until) = (Arc::clone(&call_out), until.clone());
            async move { call_out.run(until).await }
        };
        let task = Task::restarted("call to a sink").spawn(stop.clone(), run);
        self.components.started((), "call to a sink", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    /// Becomes ready with the first complete publication, and until then tells for which sources it waits. Later on a source that is lost
    /// or has an error that holds everything back is a degradation: what it delivered before is served.
    fn watch_sources(
        &mut self,
        galley: &Arc<Galley>,
        synced: mixer_base::probe::ProbeEmitter,
        kept_files: Option<Arc<KeptFiles>>,
    ) {
        let (stop, galley) = (CancellationToken::new(), Arc::clone(galley));
        let (until, degradations) = (stop.clone(), self.degradations.clone());
        let watch = move || {
            let (galley, until, synced) = (Arc::clone(&galley), until.clone(), synced.clone());
            let (degradations, kept_files) = (degradations.clone(), kept_files.clone());
            async move {
                let tell_of_cache = || {
                    if let Some(kept) = &kept_files {
                        let trouble = kept.trouble();
                        degradations.set("config-cache", trouble.map_or(Ok(()), |why| Err(why.to_string())));
                    }
                };
                let follow = async {
                    while !galley.is_synced() {
                        tell_of_cache();
                        let state = galley.state();
                        let missing = state.sources.iter().filter(|source| !source.is_synced());
                        synced.set(Err(format!("{NOT_PUBLISHED}{}", told(missing))));
                        drop(tokio::time::timeout(SOURCES_INTERVAL, galley.synced()).await);
                    }
                    synced.set(Ok(()));
                    tracing::info!("every collection was published");
                    loop {
                        let state = galley.state();
                        // One that was never reached has told why, if it was tried.
                        let is_lost = |s: &&SourceState| !s.is_connected && s.last_error.is_some();
                        let lost: Vec<_> =
                            state.sources.iter().filter(|s| is_lost(s) || s.held.is_some()).collect();
                        let status = match lost.is_empty() {
                            true => Ok(()),
                            false => Err(format!("what was read before is served{}", told(lost.into_iter()))),
                        };
                        degradations.set("sources", status);
                        tell_of_cache();
                        tokio::time::sleep(SOURCES_INTERVAL).await;
                    }
                };
                tokio::select! {
                    () = until.cancelled() => {}
                    () = follow => {}
                }
            }
        };
        let task = Task::restarted("sources").spawn(stop.clone(), watch);
        self.components.started((), "sources", async move |_: Duration| {
            stop.cancel();
            task.await.is_ok()
        });
    }
}

/// Sources with what went wrong last, if there are any.
fn told<'s>(sources: impl Iterator<Item = &'s SourceState>) -> String {
    let one = |source: &SourceState| match (&source.held, &source.last_error) {
        (Some(why), _) | (None, Some((why, _))) => format!("{}: {why}", source.name),
        (None, None) => source.name.clone(),
    };
    let all: Vec<String> = sources.map(one).collect();
    if all.is_empty() { String::new() } else { format!(": {}", all.join("; ")) }
}

fn source_options(options: &HostOptions) -> Result<SourceOptions, String> {
    let HostOptions { serving, processing, .. } = options;
    let collections = processing.served_collections().into_iter().map(Arc::from).collect();
    let legacy = match serving.serves_legacy {
        true => processing.legacy_names().into_iter().map(|(name, of)| (name.into(), of.into())).collect(),
        false => Vec::new(),
    };
    Ok(SourceOptions {
        legacy,
        incremental: serving.incremental,
        // Those of files begin anew with the process.
        lasting_versions: false,
        metadata: serving.metadata()?,
        streams: serving.stream_rate,
        requests: serving.request_rate,
        max_request: serving.max_message,
        ..SourceOptions::new(collections)
    })
}

fn server_options(serving: &ServingOptions) -> Result<ServerOptions, String> {
    let tls = (!serving.is_insecure).then(|| ServerTlsOptions {
        cert_file: serving.cert_file.clone(),
        key_file: serving.key_file.clone(),
        client_ca_file: serving.ca_file.clone(),
        ..ServerTlsOptions::default()
    });
    let access_list = (!serving.is_insecure).then(|| serving.access_list.clone());
    Ok(ServerOptions {
        tls,
        access_list: access_list.filter(|path| !path.as_os_str().is_empty()),
        needs_access_list: serving.needs_access_list,
        max_streams: serving.max_streams,
        max_memory: serving.max_memory,
        ..ServerOptions::new(serving.listen_address()?)
    })
}

fn call_outs(serving: &ServingOptions) -> Result<Vec<ClientOptions>, String> {
    if serving.sinks.is_empty() {
        return Ok(Vec::new());
    }
    let metadata = serving.metadata()?;
    let tls = |mut options: ClientTlsOptions| {
        options.ca_file = serving.ca_file.clone();
        options
    };
    let auth = match serving.auth()? {
        SinkAuth::None => ClientAuth::None,
        SinkAuth::Google => ClientAuth::Google,
        SinkAuth::Tls => ClientAuth::Tls(tls(ClientTlsOptions::default())),
        SinkAuth::MutualTls => ClientAuth::Tls(tls(ClientTlsOptions {
            cert_file: serving.cert_file.clone(),
            key_file: serving.key_file.clone(),
            ..ClientTlsOptions::default()
        })),
    };
    let call = |address: &String| ClientOptions {
        auth: auth.clone(),
        metadata: metadata.clone(),
        ..ClientOptions::new(address)
    };
    Ok(serving.sinks.iter().map(call).collect())
}
