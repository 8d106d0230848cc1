//! The configuration of the scenario `galley`: many virtual services, and a few gateways.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// The large collection, and the small one.
pub(super) const COLLECTIONS: [&str; 2] =
    ["istio/networking/v1alpha3/virtualservices", "istio/networking/v1alpha3/gateways"];
/// Gateways beside the virtual services.
const GATEWAYS: usize = 100;

/// A directory of resources.
pub(super) struct Files {
    directory: PathBuf,
    resources: usize,
    per_file: usize,
}

/// Which collection an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edited {
    /// The one with nearly all resources.
    Large,
    /// The one with a hundred.
    Small,
    /// The large one: every other edit takes a resource away, and the next one brings it back.
    Members,
}

impl Files {
    /// Writes the directory.
    pub(super) fn write(directory: &Path, resources: usize, per_file: usize) -> Result<Self> {
        let files = Self { directory: directory.to_owned(), resources, per_file: per_file.max(1) };
        for first in (0..files.virtual_services()).step_by(files.per_file) {
            std::fs::write(files.path_of(first), files.text(first, None, None))?;
        }
        std::fs::write(directory.join("gateways.yaml"), gateways(None))?;
        Ok(files)
    }

    fn virtual_services(&self) -> usize {
        self.resources.saturating_sub(GATEWAYS).max(1)
    }

    fn path_of(&self, first: usize) -> PathBuf {
        self.directory.join(format!("virtual-services-{first:06}.yaml"))
    }

    /// The file of the virtual services from `first` on, of which one may have another host, and one may be missing.
    fn text(&self, first: usize, edited: Option<(usize, &str)>, missing: Option<usize>) -> String {
        let mut text = String::new();
        let numbers = first..(first + self.per_file).min(self.virtual_services());
        for number in numbers.filter(|number| missing != Some(*number)) {
            let host = match edited {
                Some((edited, marker)) if edited == number => format!("{marker}.example.com"),
                _ => format!("service-{number:06}.example.com"),
            };
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "---\napiVersion: networking.istio.io/v1alpha3\nkind: VirtualService\nmetadata:\n  name: service-{number:06}\n  \
                 namespace: ns-{}\nspec:\n  hosts:\n  - {host}\n  gateways:\n  - mesh\n  http:\n  - match:\n    - uri:\n        \
                 prefix: /v1\n    route:\n    - destination:\n        host: service-{number:06}.ns-{}.svc.cluster.local\n        \
                 port:\n          number: 8080\n    timeout: 3s\n",
                number % 100,
                number % 100
            );
        }
        text
    }

    /// Prepares an edit beside the file. Returns what it brings, as it is in the message to sinks, and what puts it into its place.
    pub(super) fn edit(
        &self,
        edited: Edited,
        number: usize,
    ) -> Result<(String, impl FnOnce() -> Result<()> + use<>)> {
        let marker = format!("edit-{number:06}");
        let place = |number: usize| {
            let number = number * 7_919 % self.virtual_services();
            (number, number / self.per_file * self.per_file)
        };
        let (path, text, marker) = match edited {
            Edited::Large => {
                let (number, first) = place(number);
                (self.path_of(first), self.text(first, Some((number, &marker)), None), marker)
            }
            Edited::Small => {
                (self.directory.join("gateways.yaml"), gateways(Some((number % GATEWAYS, &marker))), marker)
            }
            Edited::Members => {
                let is_back = number % 2 == 1;
                let (number, first) = place(number / 2);
                let text = self.text(first, None, (!is_back).then_some(number));
                (self.path_of(first), text, format!("ns-{}/service-{number:06}", number % 100))
            }
        };
        let aside = self.directory.join(".next");
        std::fs::write(&aside, text)?;
        Ok((marker, move || Ok(std::fs::rename(aside, path)?)))
    }
}

fn gateways(edited: Option<(usize, &str)>) -> String {
    let mut text = String::new();
    for number in 0..GATEWAYS {
        let host = match edited {
            Some((edited, marker)) if edited == number => format!("{marker}.example.com"),
            _ => format!("gateway-{number}.example.com"),
        };
        let _ = write!(
            text,
            "---\napiVersion: networking.istio.io/v1alpha3\nkind: Gateway\nmetadata:\n  name: gateway-{number}\n  namespace: default\n\
             spec:\n  selector:\n    istio: ingressgateway\n  servers:\n  - port:\n      number: 80\n      name: http\n      \
             protocol: HTTP\n    hosts:\n    - {host}\n"
        );
    }
    text
}
