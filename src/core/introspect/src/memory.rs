//! The memory page, and its JSON with the fields of Istio Mixer.

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::html;
use serde_json::{Value, json};

use super::page::Page;
use super::process_memory::Memory;
use super::{Console, back, format, plot};

/// compat(1.3): Go's memory statistics with the nearest meaning, 0 where there is none, and the values of [`Memory`].
pub(super) fn json(server: &Console) -> Value {
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

/// `PUT /memj/forcecollection`: there is no garbage collector; the allocator returns its free memory to the system.
pub(super) async fn collect(server: &Console) -> Response {
    trim(server).await;
    StatusCode::ACCEPTED.into_response()
}

/// The same for the form on the page.
pub(super) async fn collect_by_form(server: &Console) -> Response {
    trim(server).await;
    back("/memz/")
}

async fn trim(server: &Console) {
    server.trend.count_collection();
    // Never fails unless the process ends.
    let _ = tokio::task::spawn_blocking(mixer_base::memory::release).await;
}

/// The page.
pub(super) fn page(server: &Console) -> Response {
    let memory = Memory::now();
    let trend = server.trend.view(server);
    let rows: [(&str, u64, &str); 8] = [
        ("Resident", memory.resident, "private and mapped memory"),
        ("Peak", memory.peak_resident, "maximum of resident memory"),
        (
            "Private",
            memory.anonymous,
            "resident heap and stacks (RssAnon); HeapAlloc and HeapInuse of Istio Mixer",
        ),
        (
            "Mapped",
            memory.files,
            "resident pages of the executable and other files (RssFile); shared, and dropped under memory pressure",
        ),
        ("Data", memory.data, "virtual memory for data; HeapSys of Istio Mixer"),
        ("Stack", memory.stack, "stack of the main thread"),
        ("Swapped", memory.swapped, "swapped out"),
        ("Virtual", memory.virtual_size, "virtual memory; Sys of Istio Mixer"),
    ];
    Page {
        path: "/memz/",
        title: "Memory Usage",
        lead: html! { "Memory of the process as reported by the kernel. There is no garbage collector." },
        json: "/memj/",
        body: html! {
            section #memory data-live {
                div.plots { (plot::lines("Resident memory", &[("resident", &trend.memory)], plot::Unit::Bytes)) }
                div.scroll { table.pairs.numbers.cards { tbody { @for (name, bytes, about) in rows {
                    tr { th scope="row" { (name) } td.number data-label="Size" { (format::bytes(bytes as f64)) } td.number.dim data-label="Bytes" { (format::count(bytes)) } td.lines { (about) } }
                } } } }
            }
            form.inline method="post" action="/memz/collect" {
                button disabled[server.guard.read_only] title="Returns free memory of the allocator to the system" { "Force collection" }
                span.dim { (server.trend.collections()) " requested" }
            }
        },
    }
    .answer(server)
}
