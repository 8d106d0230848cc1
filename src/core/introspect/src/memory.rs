//! Memory: what the kernel says of the process, in its own words and in those of the originals.

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::html;
use serde::Serialize;
use serde_json::{Value, json};

use super::page::Page;
use super::{Server, back, format, plot};
use mixer_profile::heap;

/// Bytes by kind, from `/proc/self/status`; 0 where the kernel does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// Address space.
    pub(super) virtual_size: u64,
    /// In memory now.
    pub(super) resident: u64,
    /// The most that ever was.
    pub(super) peak_resident: u64,
    /// Resident and belonging to the process alone: heap and stacks.
    pub(super) anonymous: u64,
    /// Resident pages of files: the program itself.
    pub(super) files: u64,
    /// Address space for data.
    pub(super) data: u64,
    /// Stack of the first thread.
    pub(super) stack: u64,
    /// On disk.
    pub(super) swapped: u64,
}

impl Memory {
    /// Reads the numbers.
    pub(super) fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn parse(status: &str) -> Self {
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            number.unwrap_or(0) * 1024
        };
        Self {
            virtual_size: kilobytes("VmSize"),
            resident: kilobytes("VmRSS"),
            peak_resident: kilobytes("VmHWM"),
            anonymous: kilobytes("RssAnon"),
            files: kilobytes("RssFile"),
            data: kilobytes("VmData"),
            stack: kilobytes("VmStk"),
            swapped: kilobytes("VmSwap"),
        }
    }
}

/// The members of the originals with the nearest meaning, 0 where there is none, and the native numbers.
pub(super) fn json(server: &Server) -> Value {
    let memory = Memory::now();
    let idle = memory.data.saturating_sub(memory.anonymous);
    json!({
        "Alloc": memory.anonymous, "TotalAlloc": memory.anonymous, "Sys": memory.virtual_size, "Lookups": 0,
        "Mallocs": 0, "Frees": 0, "HeapAlloc": memory.anonymous, "HeapSys": memory.data, "HeapIdle": idle,
        "HeapInuse": memory.anonymous, "HeapReleased": idle, "HeapObjects": 0, "StackInuse": memory.stack,
        "StackSys": memory.stack, "MSpanInuse": 0, "MSpanSys": 0, "MCacheInuse": 0, "MCacheSys": 0,
        "BuckHashSys": 0, "GCSys": 0, "OtherSys": memory.files, "NextGC": 0, "LastGC": 0, "PauseTotalNs": 0,
        "PauseNs": [], "PauseEnd": [], "NumGC": server.trend.collections(),
        "NumForcedGC": server.trend.collections(), "GCCPUFraction": 0, "EnableGC": false, "DebugGC": false,
        "BySize": [], "allocator": memory,
    })
}

/// `PUT /memj/forcecollection`: memory is freed where it goes out of use, so that there is nothing to collect; what the allocator
/// holds back goes to the system.
pub(super) async fn collect(server: &Server) -> Response {
    give_back(server).await;
    StatusCode::ACCEPTED.into_response()
}

/// The same from the page.
pub(super) async fn collect_by_form(server: &Server) -> Response {
    give_back(server).await;
    back("/memz/")
}

async fn give_back(server: &Server) {
    server.trend.count_collection();
    // Never fails unless the process ends.
    let _ = tokio::task::spawn_blocking(heap::give_back).await;
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let memory = Memory::now();
    let trend = server.trend.view();
    let rows: [(&str, u64, &str); 8] = [
        ("Resident", memory.resident, "in memory now"),
        ("Peak", memory.peak_resident, "the most that was ever in memory"),
        ("Anonymous", memory.anonymous, "resident heap and stacks; HeapAlloc and HeapInuse of the originals"),
        ("Files", memory.files, "resident pages of the program and of mapped files"),
        ("Data", memory.data, "address space for data; HeapSys of the originals"),
        ("Stack", memory.stack, "stack of the first thread"),
        ("Swapped", memory.swapped, "on disk"),
        ("Virtual", memory.virtual_size, "address space; Sys of the originals"),
    ];
    Page {
        path: "/memz/",
        title: "Memory Usage",
        lead: html! { "As the kernel counts it. Memory is freed where it goes out of use; there is no collector and there are no pauses." },
        json: "/memj/",
        body: html! {
            section #memory data-live {
                div.plots { (plot::lines("Resident memory", &[("resident", &trend.memory)], plot::Unit::Bytes)) }
                div.scroll { table.pairs.numbers { tbody { @for (name, bytes, about) in rows {
                    tr { th scope="row" { (name) } td.number { (format::bytes(bytes as f64)) } td.number.dim { (format::count(bytes)) } td { (about) } }
                } } } }
            }
            form.inline method="post" action="/memz/collect" {
                button disabled[server.guard.read_only] title="Gives memory that is free back to the system" { "Force collection" }
                span.dim { (server.trend.collections()) " asked for" }
            }
        },
    }
    .answer(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_are_bytes() {
        let status =
            "Name:\tx\nVmPeak:\t  9 kB\nVmSize:\t    2048 kB\nVmRSS:\t  1024 kB\nRssAnon:\t 512 kB\n";
        let memory = Memory::parse(status);
        assert_eq!((memory.virtual_size, memory.resident, memory.anonymous), (2 << 20, 1 << 20, 512 << 10));
        assert_eq!(memory.swapped, 0);
        assert!(Memory::now().resident > 0);
    }
}
