//! What a Eureka server has: all applications, changed by what it tells. Without I/O. Spec: galley.md, "Eureka source".

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::document::{Applications as Told, Instance, Port};
use crate::source::registered::{RegisteredService, ServiceEndpoint, ServicePort, resource_name};

/// Most bytes of the names, addresses and metadata of all instances.
const MAX_BYTES: usize = 128 << 20;
/// Bytes of an instance beside its texts.
const INSTANCE_BYTES: usize = 256;

/// Why what a server tells is not taken over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mismatch {
    /// Changes are missing: all applications are to be read again.
    #[error("changes are missing: after them there are `{here}`, and the server has `{there}`")]
    Hash {
        /// The instances by status here.
        here: String,
        /// Those of the server.
        there: String,
    },
    /// A change is none of those that are known.
    #[error("the change `{0}` of an instance is unknown")]
    Change(String),
    /// There are more instances than fit.
    #[error("the instances take more than {MAX_BYTES} bytes: register fewer of them, or less metadata")]
    TooLarge,
}

/// All applications of a server: their instances, by id.
#[derive(Debug, Default)]
pub(super) struct Applications {
    by_name: BTreeMap<String, BTreeMap<String, Instance>>,
    statuses: BTreeMap<String, usize>,
    bytes: usize,
    max_bytes: Option<usize>,
    /// Applications that changes touched which led to something else than the server has.
    touched: BTreeSet<String>,
}

impl Applications {
    /// Replaces everything by what a server has. Returns the applications that are other ones now.
    ///
    /// Errors: there are too many instances; nothing changed.
    pub(super) fn replace(&mut self, told: Told) -> Result<BTreeSet<String>, Mismatch> {
        let mut new = Self { max_bytes: self.max_bytes, ..Self::default() };
        for application in told.application.0 {
            for instance in application.instance.0 {
                new.put(&application.name.0, instance)?;
            }
        }
        let mut changed = std::mem::take(&mut self.touched);
        let differs = |name: &&String| self.by_name.get(*name) != new.by_name.get(*name);
        changed.extend(self.by_name.keys().chain(new.by_name.keys()).filter(differs).cloned());
        *self = new;
        Ok(changed)
    }

    /// Takes over changes. Returns the applications that are other ones now.
    ///
    /// Errors: afterwards it is not what the server has. Everything is to be [replaced](Self::replace) then.
    pub(super) fn change(&mut self, told: Told) -> Result<BTreeSet<String>, Mismatch> {
        for application in told.application.0 {
            let name = application.name.0;
            for mut instance in application.instance.0 {
                let action = std::mem::take(&mut instance.action_type.0);
                self.touched.insert(name.clone());
                match action.as_str() {
                    "ADDED" | "MODIFIED" => self.put(&name, instance)?,
                    "DELETED" => self.remove(&name, id(&instance)),
                    _ => return Err(Mismatch::Change(action)),
                }
            }
        }
        let (here, there) = (self.hash(), told.hash.unwrap_or_default().0);
        if here == there {
            Ok(std::mem::take(&mut self.touched))
        } else {
            Err(Mismatch::Hash { here, there })
        }
    }

    fn put(&mut self, application: &str, instance: Instance) -> Result<(), Mismatch> {
        self.remove(application, id(&instance));
        let bytes = size(&instance);
        if self.bytes + bytes > self.max_bytes.unwrap_or(MAX_BYTES) {
            return Err(Mismatch::TooLarge);
        }
        self.bytes += bytes;
        *self.statuses.entry(instance.status.0.clone()).or_default() += 1;
        let instances = self.by_name.entry(application.to_owned()).or_default();
        instances.insert(id(&instance).to_owned(), instance);
        Ok(())
    }

    fn remove(&mut self, application: &str, id: &str) {
        let Some(instances) = self.by_name.get_mut(application) else { return };
        let Some(old) = instances.remove(id) else { return };
        if instances.is_empty() {
            self.by_name.remove(application);
        }
        self.bytes -= size(&old);
        if let Some(count) = self.statuses.get_mut(&old.status.0) {
            *count -= 1;
            if *count == 0 {
                self.statuses.remove(&old.status.0);
            }
        }
    }

    /// The number of instances by status, as servers write it: `DOWN_1_UP_7_`.
    pub(super) fn hash(&self) -> String {
        self.statuses.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
    }

    /// The service that an application is; `None` if none of its instances can be used. What is wrong with the others is added to
    /// `problems`.
    pub(super) fn service(
        &self,
        name: &str,
        service_port: Option<u16>,
        problems: &mut Vec<String>,
    ) -> Option<RegisteredService> {
        let mut usable = Vec::new();
        for (id, instance) in self.by_name.get(name)?.iter().filter(|(_, instance)| instance.status.0 == "UP")
        {
            let Some(port) =
                [&instance.port, &instance.secure_port].into_iter().find(|port| is_enabled(port))
            else {
                continue;
            };
            let number = port.number.0.parse::<u16>().ok().filter(|number| *number > 0);
            let address =
                [&instance.ip_addr.0, &instance.host_name.0].into_iter().find(|text| !text.is_empty());
            match (number, address) {
                (None, _) => {
                    problems.push(format!("instance `{id}`: `{}` is no port from 1 to 65535", port.number.0));
                }
                (_, None) => {
                    problems.push(format!("instance `{id}`: it has neither an address nor a host name"))
                }
                (Some(number), Some(address)) => usable.push((address, number, &instance.metadata.0)),
            }
        }
        let (_, first, _) = usable.first()?;
        let number = service_port.unwrap_or(*first);
        let port = format!("http-{number}");
        let are_addresses = usable.iter().all(|(address, ..)| address.parse::<IpAddr>().is_ok());
        let endpoint = |(address, number, metadata): (&String, u16, &BTreeMap<String, String>)| {
            let labels = metadata.iter().filter(|(key, value)| mixer_schema::is_workload_label(key, value));
            ServiceEndpoint {
                address: address.clone(),
                ports: [(port.clone(), number)].into(),
                labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            }
        };
        let name = resource_name(name);
        Some(RegisteredService {
            host: name.clone(),
            name,
            resolution: if are_addresses { "STATIC" } else { "DNS" },
            ports: vec![ServicePort { number, name: port.clone(), protocol: "HTTP" }],
            endpoints: usable.into_iter().map(endpoint).collect(),
        })
    }
}

/// Older servers have no ids.
fn id(instance: &Instance) -> &str {
    if instance.instance_id.0.is_empty() { &instance.host_name.0 } else { &instance.instance_id.0 }
}

fn is_enabled(port: &Port) -> bool {
    port.is_enabled.0 == "true"
}

fn size(instance: &Instance) -> usize {
    let metadata: usize = instance.metadata.0.iter().map(|(key, value)| key.len() + value.len() + 48).sum();
    let texts = [&instance.instance_id, &instance.host_name, &instance.ip_addr, &instance.status];
    INSTANCE_BYTES + metadata + texts.into_iter().map(|text| text.0.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::eureka::document::Answer;
    use serde_json::{Value, json};

    fn instance(id: &str, status: &str) -> Value {
        json!({"instanceId": id, "hostName": "h", "ipAddr": "10.0.0.1", "status": status, "port": {"$": 80, "@enabled": "true"}})
    }

    fn told(applications: Value) -> Told {
        serde_json::from_value::<Answer>(json!({"applications": applications})).unwrap().applications
    }

    fn all(application: Value) -> Told {
        told(json!({"application": application}))
    }

    fn changed(result: Result<BTreeSet<String>, Mismatch>) -> Vec<String> {
        result.unwrap().into_iter().collect()
    }

    #[test]
    fn changes_lead_to_what_the_server_has() {
        let mut here = Applications::default();
        let first = json!([
            {"name": "A", "instance": [instance("1", "UP"), instance("2", "DOWN")]},
            {"name": "B", "instance": instance("3", "UP")},
        ]);
        assert_eq!(changed(here.replace(all(first.clone()))), ["A", "B"]);
        assert!(changed(here.replace(all(first))).is_empty());
        assert_eq!(here.hash(), "DOWN_1_UP_2_");
        let with = |mut instance: Value, action: &str| {
            instance["actionType"] = action.into();
            instance
        };
        let delta = json!({"apps__hashcode": "DOWN_2_UP_1_", "application": [
            {"name": "A", "instance": [with(instance("1", "UP"), "DELETED"), with(instance("4", "UP"), "ADDED")]},
            {"name": "B", "instance": with(instance("3", "DOWN"), "MODIFIED")},
        ]});
        assert_eq!(changed(here.change(told(delta))), ["A", "B"]);
        let nothing = json!({"apps__hashcode": "DOWN_2_UP_1_", "application": []});
        assert!(changed(here.change(told(nothing))).is_empty());
        let gap = json!({"apps__hashcode": "DOWN_2_UP_2_", "application": []});
        let expected = Mismatch::Hash { here: "DOWN_2_UP_1_".to_owned(), there: "DOWN_2_UP_2_".to_owned() };
        assert_eq!(here.change(told(gap)), Err(expected));
        let unknown = json!({"application": [{"name": "A", "instance": with(instance("9", "UP"), "MOVED")}]});
        assert_eq!(here.change(told(unknown)), Err(Mismatch::Change("MOVED".to_owned())));
        let moved = json!([{"name": "A", "instance": [instance("2", "DOWN"), instance("4", "UP")]}]);
        assert_eq!(changed(here.replace(all(moved))), ["A", "B"], "A as well, which changes touched in vain");
        assert_eq!(changed(here.replace(all(json!([])))), ["A"]);
        assert_eq!((here.bytes, here.hash()), (0, String::new()));
    }

    #[test]
    fn instances_that_do_not_fit_change_nothing() {
        let mut here = Applications { max_bytes: Some(600), ..Applications::default() };
        here.replace(all(json!([{"name": "A", "instance": [instance("1", "UP")]}]))).unwrap();
        let many = [instance("1", "UP"), instance("2", "UP"), instance("3", "UP")];
        assert_eq!(here.replace(all(json!([{"name": "A", "instance": many}]))), Err(Mismatch::TooLarge));
        assert_eq!(here.hash(), "UP_1_");
    }

    #[test]
    fn an_application_is_a_service_of_its_usable_instances() {
        let of = |instances: Value, port| {
            let mut here = Applications::default();
            here.replace(all(json!([{"name": "MY_SHOP", "instance": instances}]))).unwrap();
            let mut problems = Vec::new();
            (here.service("MY_SHOP", port, &mut problems), problems)
        };
        let instances = json!([
            {"instanceId": "b", "ipAddr": "10.0.0.2", "status": "UP", "port": {"$": 8080, "@enabled": "true"},
             "metadata": {"zone": "a", "@class": "java.util.Map", "bad key": "x", "url": "http://x"}},
            {"instanceId": "a", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 80, "@enabled": "false"},
             "securePort": {"$": 8443, "@enabled": "true"}},
            {"instanceId": "c", "ipAddr": "10.0.0.3", "status": "OUT_OF_SERVICE", "port": {"$": 80, "@enabled": "true"}},
            {"instanceId": "d", "ipAddr": "10.0.0.4", "status": "UP", "port": {"$": 80, "@enabled": "false"}},
            {"instanceId": "e", "ipAddr": "10.0.0.5", "status": "UP", "port": {"$": 65536, "@enabled": "true"}},
            {"instanceId": "f", "status": "UP", "port": {"$": 80, "@enabled": "true"}},
        ]);
        let (service, problems) = of(instances.clone(), None);
        let service = service.unwrap();
        assert_eq!((&*service.name, &*service.host, service.resolution), ("my-shop", "my-shop", "STATIC"));
        let port = ServicePort { number: 8443, name: "http-8443".to_owned(), protocol: "HTTP" };
        assert_eq!(service.ports, [port]);
        let endpoints: Vec<_> =
            service.endpoints.iter().map(|e| (&*e.address, e.ports["http-8443"])).collect();
        assert_eq!(endpoints, [("10.0.0.1", 8443), ("10.0.0.2", 8080)]);
        assert_eq!(service.endpoints[1].labels, [("zone".to_owned(), "a".to_owned())].into());
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].contains("`65536` is no port") && problems[1].contains("neither"),
            "{problems:?}"
        );
        let (service, _) = of(instances, Some(80));
        assert_eq!(service.unwrap().ports[0].name, "http-80");
        let named = json!([{"instanceId": "a", "hostName": "shop.example", "status": "UP", "port": {"$": 80, "@enabled": true}}]);
        let service = of(named, None).0.unwrap();
        assert_eq!((service.resolution, &*service.endpoints[0].address), ("DNS", "shop.example"));
        assert_eq!(of(json!([{"instanceId": "a", "status": "DOWN"}]), None), (None, Vec::new()));
    }
}
