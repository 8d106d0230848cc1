//! `grpc.health.v1.Health` and gRPC server reflection.
//!
//! Served on the API port, exempt from load shedding.

use std::pin::Pin;

use futures_util::Stream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthApi, HealthServer};
use tonic_health::pb::{FILE_DESCRIPTOR_SET as HEALTH_DESCRIPTORS, HealthCheckRequest, HealthCheckResponse};

use super::health::Health;
use mixer_base::probe::Availability;
use mixer_wire::DESCRIPTORS;

/// The services that reflection lists besides itself.
pub(super) const SERVICES: &[&str] = &[
    "envoy.service.accesslog.v3.AccessLogService",
    "envoy.service.auth.v3.Authorization",
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "istio.mixer.v1.Mixer",
];

/// The services over `health`, and reflection if enabled. Streams end when `stopping` is cancelled.
///
/// Errors: the descriptors of the build cannot be read, which is a bug.
pub(super) fn services(
    health: &Health,
    reflection: bool,
    stopping: CancellationToken,
) -> Result<Routes, tonic_reflection::server::Error> {
    let health = HealthServer::new(HealthService { health: health.clone(), stopping });
    let mut routes = Routes::default().add_service(health);
    if reflection {
        let builder = || {
            let builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(HEALTH_DESCRIPTORS);
            SERVICES.iter().fold(builder, |builder, name| builder.with_service_name(*name))
        };
        let v1 = builder().with_service_name("grpc.reflection.v1.ServerReflection").build_v1()?;
        let alpha =
            builder().with_service_name("grpc.reflection.v1alpha.ServerReflection").build_v1alpha()?;
        routes = routes.add_service(v1).add_service(alpha);
    }
    Ok(routes)
}

/// `grpc.health.v1.Health` over the conditions of the server.
struct HealthService {
    health: Health,
    stopping: CancellationToken,
}

impl HealthService {
    /// The availability of a service name: the server and its services follow readiness, `liveness` follows liveness.
    fn of(&self, service: &str) -> Option<&Availability> {
        match service {
            ""
            | "envoy.service.accesslog.v3.AccessLogService"
            | "envoy.service.auth.v3.Authorization"
            | "envoy.service.ratelimit.v3.RateLimitService"
            | "istio.mixer.v1.Mixer"
            | "readiness" => Some(&self.health.readiness),
            "liveness" => Some(&self.health.liveness),
            _ => None,
        }
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

fn status(of: &Availability) -> ServingStatus {
    if of.status().is_ok() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

/// A watch of one service.
struct Watcher {
    of: Option<Availability>,
    changes: Option<watch::Receiver<u64>>,
    said: Option<ServingStatus>,
    stopping: CancellationToken,
}

impl Watcher {
    /// The next changed status; `None` when the server stops.
    async fn next(&mut self) -> Option<HealthCheckResponse> {
        loop {
            let now = self.of.as_ref().map_or(ServingStatus::ServiceUnknown, status);
            if self.said != Some(now) {
                self.said = Some(now);
                return Some(response(now));
            }
            let changed = async {
                match &mut self.changes {
                    // An unknown service stays unknown.
                    None => std::future::pending().await,
                    Some(changes) => changes.changed().await.is_ok(),
                }
            };
            tokio::select! {
                biased;
                true = changed => {}
                () = self.stopping.cancelled() => return None,
                else => return None,
            }
        }
    }
}

#[tonic::async_trait]
impl HealthApi for HealthService {
    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, tonic::Status> {
        let service = request.into_inner().service;
        match self.of(&service) {
            Some(of) => Ok(tonic::Response::new(response(status(of)))),
            None => Err(tonic::Status::not_found(format!("unknown service `{service}`"))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, tonic::Status>> + Send>>;

    async fn watch(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, tonic::Status> {
        let of = self.of(&request.into_inner().service).cloned();
        let changes = of.as_ref().map(Availability::changes);
        let watcher = Watcher { of, changes, said: None, stopping: self.stopping.clone() };
        let stream = futures_util::stream::unfold(watcher, async |mut watcher| {
            let next = watcher.next().await?;
            Some((Ok(next), watcher))
        });
        Ok(tonic::Response::new(Box::pin(stream)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    fn service() -> HealthService {
        let health = Health::new("live", "ready");
        health.liveness.emitter("server", "new").set(Ok(()));
        HealthService { health, stopping: CancellationToken::new() }
    }

    fn ask(service: &str) -> tonic::Request<HealthCheckRequest> {
        tonic::Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    async fn checked(service: &HealthService, name: &str) -> Result<ServingStatus, tonic::Code> {
        let answer = service.check(ask(name)).await.map_err(|e| e.code())?;
        Ok(answer.into_inner().status())
    }

    #[tokio::test]
    async fn service_names_map_to_conditions() {
        let service = service();
        let ready = service.health.readiness.emitter("store", "not read");
        for name in ["", "istio.mixer.v1.Mixer", "readiness"] {
            assert_eq!(checked(&service, name).await, Ok(ServingStatus::NotServing), "{name}");
        }
        assert_eq!(checked(&service, "liveness").await, Ok(ServingStatus::Serving));
        assert_eq!(checked(&service, "nosuch").await, Err(tonic::Code::NotFound));
        ready.set(Ok(()));
        assert_eq!(checked(&service, "").await, Ok(ServingStatus::Serving));
    }

    #[tokio::test]
    async fn watches_report_changes_until_the_server_stops() {
        let service = service();
        let ready = service.health.readiness.emitter("store", "not read");
        let mut known = service.watch(ask("")).await.unwrap().into_inner();
        let mut unknown = service.watch(ask("nosuch")).await.unwrap().into_inner();
        let said = |next: Option<Result<HealthCheckResponse, tonic::Status>>| next.unwrap().unwrap().status();
        assert_eq!(said(unknown.next().await), ServingStatus::ServiceUnknown);
        assert_eq!(said(known.next().await), ServingStatus::NotServing);
        ready.set(Ok(()));
        assert_eq!(said(known.next().await), ServingStatus::Serving);
        ready.set(Err("stopping".to_owned()));
        service.stopping.cancel();
        assert_eq!(
            said(known.next().await),
            ServingStatus::NotServing,
            "the last status precedes the end of the stream"
        );
        assert!(known.next().await.is_none());
        assert!(unknown.next().await.is_none());
    }

    #[test]
    fn every_listed_service_has_a_descriptor() {
        let health = Health::new("live", "ready");
        assert!(services(&health, true, CancellationToken::new()).is_ok());
        let text = String::from_utf8_lossy(DESCRIPTORS);
        assert!(text.contains("istio.mixer.v1"));
    }
}
