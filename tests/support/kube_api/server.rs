//! An API server that tests ask: that in memory, or a real one, which `.ci/run kubernetes` starts.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use super::KubeApi;

/// What answers.
pub(crate) enum Server {
    InMemory(KubeApi),
    Real { kubeconfig: String, restart: String },
}

impl Server {
    /// The real one whose kubeconfig `MIXER_TEST_KUBECONFIG` names, and which the command `MIXER_TEST_KUBE_RESTART` kills and starts again after
    /// some seconds, after which it has forgotten older changes; without that variable, the one in memory. The kubeconfig names no files.
    pub(crate) fn of_environment() -> Self {
        let Ok(file) = std::env::var("MIXER_TEST_KUBECONFIG") else {
            return Self::InMemory(KubeApi::start());
        };
        let kubeconfig = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let restart = std::env::var("MIXER_TEST_KUBE_RESTART");
        let restart = restart.expect("MIXER_TEST_KUBE_RESTART is set with MIXER_TEST_KUBECONFIG");
        Self::Real { kubeconfig, restart }
    }

    /// A kubeconfig with an account that may do everything.
    pub(crate) fn kubeconfig(&self) -> String {
        match self {
            Server::InMemory(api) => api.kubeconfig(),
            Server::Real { kubeconfig, .. } => kubeconfig.clone(),
        }
    }

    /// Ends it, does something, and starts it again: it has forgotten older changes.
    pub(crate) async fn without<T>(&mut self, work: impl Future<Output = T>) -> T {
        match self {
            Server::InMemory(api) => {
                api.stop();
                let done = work.await;
                api.compact();
                api.resume();
                done
            }
            Server::Real { kubeconfig, restart } => {
                let address =
                    kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: https://"));
                let address = address.expect("a server").trim_end_matches('/').to_owned();
                let mut command = Command::new("sh").args(["-c", restart]).spawn().unwrap();
                while TcpStream::connect(&address).is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                let done = work.await;
                let status = tokio::task::spawn_blocking(move || command.wait()).await.unwrap().unwrap();
                assert!(status.success(), "{restart}: {status}");
                done
            }
        }
    }
}
