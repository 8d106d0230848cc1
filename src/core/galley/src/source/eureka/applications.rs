//! What a Eureka server has: all applications, changed by what it tells. Without I/O. Spec: galley.md, "Eureka source".

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mixer_base::load::{self, LoadId};

use super::document::{Instance, MAX_LABELS, Mismatch, Told, Unread, read};
use crate::source::registered::{
    MAX_ENDPOINTS, RegisteredService, ServiceEndpoint, ServicePort, resource_name,
};

/// A key and its value.
type Label = (Box<str>, Box<str>);

/// Most bytes of all instances, as [`Instance::size`] counts them: about 100 000.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// An application and the id of an instance.
type Key = (Arc<str>, Box<str>);

/// All instances of a server.
#[derive(Debug, Default)]
pub(super) struct Applications {
    instances: BTreeMap<Key, Instance>,
    statuses: BTreeMap<Box<str>, usize>,
    bytes: usize,
    max_bytes: Option<usize>,
    /// Where it is told how far the answer is read that is taken over.
    pub(super) load: LoadId,
    /// Applications that changes touched which led to something else than the server has.
    touched: BTreeSet<Arc<str>>,
}

impl Applications {
    fn max_bytes(&self) -> usize {
        self.max_bytes.unwrap_or(MAX_BYTES)
    }

    /// Replaces everything by what a server has, an answer. Returns the applications that are other ones now.
    ///
    /// Errors: it is no answer, or has too many instances; nothing changed.
    pub(super) fn replace(&mut self, answer: &[u8]) -> Result<BTreeSet<Arc<str>>, Unread> {
        let mut new = Self { max_bytes: self.max_bytes, load: self.load, ..Self::default() };
        read(answer, self.max_bytes(), &mut |name, told| {
            count(self.load);
            told.into_iter().try_for_each(|told| new.put(name, told.id, told.instance))
        })?;
        let mut changed = std::mem::take(&mut self.touched);
        let (mut old_ones, mut new_ones) =
            (self.instances.iter().peekable(), new.instances.iter().peekable());
        loop {
            let order = match (old_ones.peek(), new_ones.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = if order.is_le() { old_ones.next() } else { None };
            let new = if order.is_ge() { new_ones.next() } else { None };
            let differs = old.map(|(_, instance)| instance) != new.map(|(_, instance)| instance);
            if let Some(((name, _), _)) = old.or(new).filter(|_| differs) {
                changed.insert(Arc::clone(name));
            }
        }
        *self = new;
        Ok(changed)
    }

    /// Takes over changes, an answer. Returns the applications that are other ones now.
    ///
    /// Errors: afterwards it is not what the server has. Everything is to be [replaced](Self::replace) then.
    pub(super) fn change(&mut self, answer: &[u8]) -> Result<BTreeSet<Arc<str>>, Unread> {
        let there = read(answer, self.max_bytes(), &mut |name, told| {
            count(self.load);
            self.touched.insert(Arc::clone(name));
            told.into_iter().try_for_each(|Told { id, action, instance }| match &*action {
                "ADDED" | "MODIFIED" => self.put(name, id, instance),
                "DELETED" => {
                    self.remove(&(Arc::clone(name), id));
                    Ok(())
                }
                _ => Err(Mismatch::Change(action.into())),
            })
        })?;
        let here = self.hash();
        if here == there {
            Ok(std::mem::take(&mut self.touched))
        } else {
            Err(Mismatch::Hash { here, there }.into())
        }
    }

    fn put(&mut self, application: &Arc<str>, id: Box<str>, instance: Instance) -> Result<(), Mismatch> {
        let key = (Arc::clone(application), id);
        self.remove(&key);
        let bytes = instance.size(&key.1);
        if self.bytes + bytes > self.max_bytes() {
            return Err(Mismatch::TooLarge(self.max_bytes()));
        }
        self.bytes += bytes;
        match self.statuses.get_mut(&instance.status) {
            Some(count) => *count += 1,
            None => drop(self.statuses.insert(instance.status.clone(), 1)),
        }
        self.instances.insert(key, instance);
        Ok(())
    }

    fn remove(&mut self, key: &Key) {
        let Some(old) = self.instances.remove(key) else { return };
        self.bytes -= old.size(&key.1);
        if let Some(count) = self.statuses.get_mut(&old.status) {
            *count -= 1;
            if *count == 0 {
                self.statuses.remove(&old.status);
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
        let of_name = self.instances.range((Arc::from(name), Box::default())..);
        let mut usable = Vec::new();
        let mut beyond = 0;
        for ((_, id), instance) in of_name.take_while(|((application, _), _)| **application == *name) {
            let Instance { status, address, port: Some(port), labels, more_labels } = instance else {
                continue;
            };
            if **status != *"UP" {
                continue;
            }
            match port.parse::<u16>().ok().filter(|number| *number > 0) {
                None => problems.push(format!("instance `{id}`: `{port}` is no port from 1 to 65535")),
                Some(_) if address.is_empty() => {
                    problems.push(format!("instance `{id}`: it has neither an address nor a host name"));
                }
                Some(_) if usable.len() == MAX_ENDPOINTS => beyond += 1,
                Some(number) => {
                    if *more_labels > 0 {
                        let text = format!(
                            "instance `{id}`: {more_labels} labels beyond the first {MAX_LABELS} are not used"
                        );
                        problems.push(text);
                    }
                    usable.push((&**address, number, &**labels));
                }
            }
        }
        if beyond > 0 {
            problems.insert(0, format!("{beyond} instances beyond the first {MAX_ENDPOINTS} are not used"));
        }
        let (_, first, _) = usable.first()?;
        let number = service_port.unwrap_or(*first);
        let port = format!("http-{number}");
        let are_addresses = usable.iter().all(|(address, ..)| address.parse::<IpAddr>().is_ok());
        let endpoint = |(address, number, labels): (&str, u16, &[Label])| {
            let labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            ServiceEndpoint {
                address: address.to_owned(),
                ports: [(port.clone(), number)].into(),
                labels: labels.collect(),
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

/// One more application was read; how many follow is not known.
fn count(load: LoadId) {
    load::documents_known(load, 1);
    load::documents_done(load, 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn instance(id: &str, status: &str) -> Value {
        json!({"instanceId": id, "hostName": "h", "ipAddr": "10.0.0.1", "status": status, "port": {"$": 80, "@enabled": "true"}})
    }

    fn told(applications: Value) -> Vec<u8> {
        json!({"applications": applications}).to_string().into_bytes()
    }

    fn all(application: Value) -> Vec<u8> {
        told(json!({"application": application}))
    }

    fn changed(result: Result<BTreeSet<Arc<str>>, Unread>) -> Vec<String> {
        result.unwrap().into_iter().map(|name| name.to_string()).collect()
    }

    #[track_caller]
    fn refused(result: Result<BTreeSet<Arc<str>>, Unread>) -> Mismatch {
        match result {
            Err(Unread::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_lead_to_what_the_server_has() {
        let mut here = Applications::default();
        let first = json!([
            {"name": "A", "instance": [instance("1", "UP"), instance("2", "DOWN")]},
            {"name": "B", "instance": instance("3", "UP")},
        ]);
        assert_eq!(changed(here.replace(&all(first.clone()))), ["A", "B"]);
        assert!(changed(here.replace(&all(first))).is_empty());
        assert_eq!(here.hash(), "DOWN_1_UP_2_");
        let with = |mut instance: Value, action: &str| {
            instance["actionType"] = action.into();
            instance
        };
        let delta = json!({"apps__hashcode": "DOWN_2_UP_1_", "application": [
            {"name": "A", "instance": [with(instance("1", "UP"), "DELETED"), with(instance("4", "UP"), "ADDED")]},
            {"name": "B", "instance": with(instance("3", "DOWN"), "MODIFIED")},
        ]});
        assert_eq!(changed(here.change(&told(delta))), ["A", "B"]);
        let nothing = json!({"apps__hashcode": "DOWN_2_UP_1_", "application": []});
        assert!(changed(here.change(&told(nothing))).is_empty());
        let gap = json!({"apps__hashcode": "DOWN_2_UP_2_", "application": []});
        let expected = Mismatch::Hash { here: "DOWN_2_UP_1_".to_owned(), there: "DOWN_2_UP_2_".to_owned() };
        assert_eq!(refused(here.change(&told(gap))), expected);
        let unknown = json!({"application": [{"name": "A", "instance": with(instance("9", "UP"), "MOVED")}]});
        assert_eq!(refused(here.change(&told(unknown))), Mismatch::Change("MOVED".to_owned()));
        let moved = json!([{"name": "A", "instance": [instance("2", "DOWN"), instance("4", "UP")]}]);
        assert_eq!(
            changed(here.replace(&all(moved))),
            ["A", "B"],
            "A as well, which changes touched in vain"
        );
        assert_eq!(changed(here.replace(&all(json!([])))), ["A"]);
        assert_eq!((here.bytes, here.hash()), (0, String::new()));
    }

    #[test]
    fn instances_that_do_not_fit_change_nothing() {
        let mut here = Applications { max_bytes: Some(600), ..Applications::default() };
        here.replace(&all(json!([{"name": "A", "instance": [instance("1", "UP")]}]))).unwrap();
        let many = [instance("1", "UP"), instance("2", "UP"), instance("3", "UP")];
        assert_eq!(
            refused(here.replace(&all(json!([{"name": "A", "instance": many}])))),
            Mismatch::TooLarge(600)
        );
        assert_eq!(here.hash(), "UP_1_");
    }

    #[test]
    fn an_application_is_a_service_of_its_usable_instances() {
        let of = |instances: Value, port| {
            let mut here = Applications::default();
            here.replace(&all(json!([{"name": "MY_SHOP", "instance": instances}]))).unwrap();
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
