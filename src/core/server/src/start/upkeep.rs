//! Background tasks: probe files, pid file, certificates, health, watchdog.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Start;
use crate::controls::Controls;
use crate::error::StartError;
use crate::health::Conditions;
use crate::steps::StopStep;
use mixer_base::memory;
use mixer_base::task::Task;
use mixer_delivery::Survey;
use mixer_net::address::ListenAddress;
use mixer_net::tls::{ServerTls, TlsError};

impl Start<'_> {
    pub(super) fn keep_probe(&mut self, step: StopStep, name: &'static str, alive: bool) {
        let (options, availability) = match alive {
            true => (&self.options.liveness_probe, &self.health.liveness),
            false => (&self.options.readiness_probe, &self.health.readiness),
        };
        if let Some(probe) = self.effects.keep_probe_file(options, availability) {
            self.components.started(step, name, async move |_| {
                probe.close().await;
                true
            });
        }
    }

    /// Loads the certificates and reloads them when they change.
    pub(super) fn load_tls(&mut self, address: &ListenAddress) -> Result<Option<Arc<ServerTls>>, StartError> {
        let refuse = |e: TlsError| StartError::because("unable to set up TLS", e);
        let tls = self.effects.load_tls(&self.options.tls).map_err(refuse)?;
        if tls.is_some() && matches!(address, ListenAddress::Unix(_)) {
            let text = "it is for TCP addresses; a unix socket is protected by --socket-mode";
            return Err(refuse(TlsError::Settings(text.to_owned())));
        }
        if let Some(tls) = &tls {
            let stop = CancellationToken::new();
            let (tls, stopped) = (Arc::clone(tls), stop.clone());
            let follow = move || Arc::clone(&tls).follow(stopped.clone());
            let task = Task::restarted("certificates").spawn(stop.clone(), follow);
            self.components.started(StopStep::Probes, "certificates", async move |_| {
                stop.cancel();
                task.await.is_ok()
            });
        }
        Ok(tls)
    }

    /// Runs before any effect that another server on the same files would notice.
    pub(super) fn write_pid_file(&mut self) -> Result<(), StartError> {
        let path = &self.options.pid_file;
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        let refuse = |e| StartError::because(&format!("unable to write the pid file {}", path.display()), e);
        let file = self.effects.write_pid_file(path).map_err(refuse)?;
        self.components.started(StopStep::Probes, "pid file", async move |_| {
            drop(file);
            true
        });
        Ok(())
    }

    /// Updates the health conditions.
    pub(super) fn follow(&mut self, conditions: Conditions) {
        let stop = CancellationToken::new();
        let (conditions, stopped) = (Arc::new(conditions), stop.clone());
        let task = Task::restarted("conditions").spawn(stop.clone(), move || {
            let (conditions, stopped) = (Arc::clone(&conditions), stopped.clone());
            async move { conditions.follow(stopped).await }
        });
        self.components.started(StopStep::Probes, "conditions", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    /// Returns memory to the system when load has ended.
    pub(super) fn trim_memory(&mut self) {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task =
            Task::restarted("memory trimmer").spawn(stop.clone(), move || memory::trim(stopped.clone()));
        self.components.started(StopStep::Probes, "memory trimmer", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }

    /// Finds what handlers of earlier configurations left on disk.
    pub(super) fn survey_spills(&mut self) {
        match Survey::start(self.options.memory_of_spills()) {
            Ok(survey) => self.components.started(StopStep::Probes, "spill survey", async move |_| {
                drop(survey);
                true
            }),
            Err(error) => tracing::warn!("what is left on disk is not looked for: {error}"),
        }
    }

    /// Notifies the service manager of readiness, and its watchdog while the server is alive.
    pub(super) fn supervise(&mut self, controls: &Arc<Controls>) {
        let Some(supervisor) = self.effects.supervisor() else { return };
        let watchdog = supervisor.watchdog();
        controls.supervise(supervisor);
        let Some(timeout) = watchdog else { return };
        let (stop, controls) = (CancellationToken::new(), Arc::clone(controls));
        let stopped = stop.clone();
        let task = Task::restarted("watchdog").spawn(stop.clone(), move || {
            let (controls, stopped) = (Arc::clone(&controls), stopped.clone());
            async move {
                loop {
                    let alive = controls.health.liveness.status();
                    if let (Ok(()), Some(supervisor)) = (alive, controls.supervisor()) {
                        supervisor.alive();
                    }
                    tokio::select! {
                        () = stopped.cancelled() => return,
                        () = tokio::time::sleep(timeout / 2) => {}
                    }
                }
            }
        });
        self.components.started(StopStep::Probes, "watchdog", async move |_| {
            stop.cancel();
            task.await.is_ok()
        });
    }
}
