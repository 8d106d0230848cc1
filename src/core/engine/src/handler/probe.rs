//! Asks whether the backends of handlers can be reached, for `doctor`.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::net::{UnixStream, lookup_host};

use super::HandlerEnvironment;
use super::table::{build_one, signature_of};
use crate::adapter::{BackendAddress, Backends};
use crate::snapshot::{HandlerBinding, Snapshot};
use crate::template::Variety;
use mixer_base::dial::dial_any;
use mixer_base::output_file::{self, Obstacle, OutputUse};
use mixer_base::secrets::mask_address;

/// Handlers that are probed at once.
const AT_ONCE: usize = 16;
/// Variables that name a proxy.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// What a probe of a handler found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedHandler {
    /// The name of the handler.
    pub name: String,
    /// The name of its adapter.
    pub adapter: String,
    /// Whether calls wait for its backend: checks, quotas and generated attributes.
    pub decides: bool,
    /// What is in the way of a file that it writes.
    pub obstacle: Option<Obstacle>,
    /// What was reached. Errors: why it cannot be built, or its backend not be reached.
    pub found: Result<String, String>,
}

/// Probes the handlers that the rules of a snapshot use and that have a backend, by name. Each has `limit`, after it is built.
pub async fn probe(
    snapshot: &Snapshot,
    environment: &HandlerEnvironment,
    limit: Duration,
) -> Vec<ProbedHandler> {
    let probes = snapshot.bindings.values().map(|binding| probe_one(binding, environment, limit));
    let found: Vec<_> = futures_util::stream::iter(probes).buffer_unordered(AT_ONCE).collect().await;
    let mut found: Vec<ProbedHandler> = found.into_iter().flatten().collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

async fn probe_one(
    binding: &HandlerBinding,
    environment: &HandlerEnvironment,
    limit: Duration,
) -> Option<ProbedHandler> {
    let config = &binding.handler;
    let backends = config.adapter.backends(&config.params);
    let mut obstacle = None;
    let found = match backends {
        Backends::None => return None,
        Backends::Addresses(addresses) if addresses.is_empty() => return None,
        Backends::Addresses(addresses) => reach_all(&addresses, limit).await,
        Backends::File(path, how) => {
            let found = examine_file(path, how, limit).await;
            obstacle = found.as_ref().err().cloned();
            found.map_err(|obstacle| obstacle.to_string())
        }
        Backends::AskHandler => match build_one(binding, signature_of(binding), environment).await {
            Err(failure) => Err(failure.text),
            Ok(handler) => {
                let probed = AssertUnwindSafe(async { handler.probe(limit).await }).catch_unwind().await;
                let _ = handler.close(limit).await;
                probed.unwrap_or_else(|_| Err("the probe panicked".to_owned()))
            }
        },
    };
    Some(ProbedHandler {
        name: config.name.to_string(),
        adapter: config.adapter_name().to_owned(),
        decides: binding.instances.iter().any(|instance| instance.template().variety != Variety::Report),
        obstacle,
        found,
    })
}

/// Errors: why it cannot be written. A disk that hangs is not waited for.
async fn examine_file(path: PathBuf, how: OutputUse, limit: Duration) -> Result<String, Obstacle> {
    let name = path.display().to_string();
    let examined = tokio::task::spawn_blocking(move || output_file::examine(&path, how));
    match tokio::time::timeout(limit, examined).await {
        Ok(Ok(examined)) => examined.map(|()| format!("`{name}` can be written")),
        Ok(Err(_)) => Err(Obstacle::Access(format!("`{name}`: the examination panicked"))),
        Err(_) => {
            Err(Obstacle::Access(format!("`{name}`: the file system does not answer within {limit:?}")))
        }
    }
}

async fn reach_all(addresses: &[BackendAddress], limit: Duration) -> Result<String, String> {
    let all = addresses.iter().map(|address| reach(address, limit));
    let found: Result<Vec<String>, String> = futures_util::future::join_all(all).await.into_iter().collect();
    Ok(found?.join(", "))
}

/// Connects, and says what is reached. Errors: why it is not.
async fn reach(address: &BackendAddress, limit: Duration) -> Result<String, String> {
    let (shown, attempt) = match address {
        BackendAddress::Tcp(place) => {
            (mask_address(place).into_owned(), connect(place.clone(), limit).boxed())
        }
        BackendAddress::Unix(path) => (path.clone(), UnixStream::connect(path.clone()).map(text).boxed()),
        BackendAddress::Udp(place) => {
            let resolved = lookup_host(place.clone()).map(|found| match found?.next() {
                Some(_) => Ok(()),
                None => Err(std::io::Error::other("its name has no address")),
            });
            (format!("{} (datagrams)", mask_address(place)), resolved.map(text).boxed())
        }
        BackendAddress::Url(url) => {
            let Some((place, is_local)) = place_of(url) else { return Err("its URL has no host".to_owned()) };
            let has_proxy =
                PROXIES.iter().any(|name| std::env::var_os(name).is_some_and(|set| !set.is_empty()));
            if has_proxy && !is_local {
                return Ok(format!("{place} is not probed, because the environment has a proxy"));
            }
            (place.clone(), connect(place.clone(), limit).boxed())
        }
    };
    match tokio::time::timeout(limit, attempt).await {
        Ok(Ok(())) => Ok(format!("{shown} can be reached")),
        Ok(Err(why)) => Err(format!("{shown}: {why}")),
        Err(_) => Err(format!("{shown}: no answer within {limit:?}")),
    }
}

async fn connect(place: String, limit: Duration) -> Result<(), String> {
    let connected = async {
        let addresses: Vec<SocketAddr> = lookup_host(place).await?.collect();
        dial_any(&addresses, limit).await
    };
    text(connected.await)
}

fn text<T>(result: std::io::Result<T>) -> Result<(), String> {
    result.map(drop).map_err(|error| mixer_base::rotate::os_text(&error))
}

/// `HOST:PORT` of a URL, and whether it is this machine, for which no proxy is used.
fn place_of(url: &str) -> Option<(String, bool)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (place, default_port(scheme)?),
    };
    let is_local = host == "localhost" || host.starts_with("127.") || host == "[::1]";
    (!host.is_empty()).then(|| (format!("{host}:{port}"), is_local))
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_place() {
        for (url, place) in [
            ("https://zipkin.example/api", Some(("zipkin.example:443".to_owned(), false))),
            ("http://localhost:9411/api/v2/spans", Some(("localhost:9411".to_owned(), true))),
            ("http://[::1]/", Some(("[::1]:80".to_owned(), true))),
            ("ftp://a", None),
            ("nothing at all", None),
        ] {
            assert_eq!(place_of(url), place, "{url}");
        }
    }

    #[tokio::test]
    async fn files_are_examined() {
        let directory = tempfile::tempdir().unwrap();
        let (path, limit) = (directory.path().join("lines"), Duration::from_secs(30));
        let how = OutputUse::default();
        let found = examine_file(path.clone(), how, limit).await;
        assert_eq!(found, Ok(format!("`{}` can be written", path.display())));
        let found = examine_file(path.join("x"), how, limit).await;
        assert!(found.unwrap_err().to_string().contains("does not exist"));
    }

    #[tokio::test]
    async fn each_kind_of_address_is_reached_or_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let limit = Duration::from_secs(30);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s").display().to_string();
        let socket = tokio::net::UnixListener::bind(&path).unwrap();
        for address in [
            BackendAddress::Tcp(place.clone()),
            BackendAddress::Udp(place.clone()),
            BackendAddress::Url(format!("http://{place}/x")),
            BackendAddress::Unix(path.clone()),
        ] {
            assert!(
                reach(&address, limit).await.is_ok_and(|text| text.ends_with("can be reached")),
                "{address:?}"
            );
        }
        drop((listener, socket));
        let with_password = format!("ann:hunter2@{place}");
        for address in [BackendAddress::Tcp(with_password.clone()), BackendAddress::Udp(with_password)] {
            let found = reach(&address, limit).await.unwrap_err();
            assert!(found.starts_with(&format!("***@{place}")) && !found.contains("hunter2"), "{found}");
        }
        for (address, why) in [
            (BackendAddress::Tcp(place.clone()), "connection refused"),
            (BackendAddress::Url(format!("http://{place}/x")), "connection refused"),
            (BackendAddress::Url("x".to_owned()), "has no host"),
            (BackendAddress::Unix(path), "connection refused"),
        ] {
            let found = reach_all(&[address], limit).await.unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }
}
