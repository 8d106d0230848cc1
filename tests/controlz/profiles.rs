//! CPU and heap profiles.

use crate::stage::{INVALID_RULE, Stage};

/// The fields of `perftools.profiles.Profile` that the tests read.
#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

impl Profile {
    /// Downloads and decodes a profile.
    fn get(stage: &Stage, path: &str) -> Self {
        use prost::Message as _;
        use std::io::Read as _;
        let url = stage.server.monitoring_url(path);
        let answer = http_bytes(&url);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(answer.as_slice()).read_to_end(&mut bytes).unwrap();
        Self::decode(bytes.as_slice()).unwrap()
    }

    fn types(&self) -> Vec<(&str, &str)> {
        let text = |at: i64| self.string_table[usize::try_from(at).unwrap()].as_str();
        self.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect()
    }

    /// The sum of the values of all samples.
    fn total(&self) -> i64 {
        self.sample.iter().filter_map(|sample| sample.value.last()).sum()
    }

    fn names(&self, part: &str) -> bool {
        self.string_table.iter().any(|text| text.contains(part))
    }
}

/// The body of a binary response.
fn http_bytes(url: &str) -> Vec<u8> {
    use std::io::{Read as _, Write as _};
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    assert!(bytes.starts_with(b"HTTP/1.0 200") || bytes.starts_with(b"HTTP/1.1 200"), "{url}");
    bytes.split_off(end + 4)
}

#[test]
fn cpu_and_heap_profiles_have_symbols() {
    let stage = Stage::new(&[]);
    let (cpu, heap) = std::thread::scope(|scope| {
        let cpu = scope.spawn(|| Profile::get(&stage, "/debug/pprof/profile?seconds=4"));
        let heap = scope.spawn(|| Profile::get(&stage, "/debug/pprof/heap?seconds=5"));
        // Configuration in effect stays allocated.
        let rules =
            |number: u32| format!("---\n{}", INVALID_RULE.replace("only-ann", &format!("only-ann-{number}")));
        let many: String = (0..1000).map(rules).collect();
        std::fs::write(stage.configuration.path().join("many.yaml"), many).unwrap();
        // Calls for as long as the profile is taken.
        while !cpu.is_finished() {
            stage.call(&[
                "check",
                "-r",
                "1000",
                "-c",
                "2",
                "--print_response=false",
                "-s",
                "source.name=web",
            ]);
        }
        (cpu.join().unwrap(), heap.join().unwrap())
    });
    assert_eq!(cpu.types(), [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(cpu.names("mixer_net::") && cpu.names("worker-0"));
    assert!(cpu.total() > 100_000_000, "{} ns", cpu.total());
    assert_eq!(heap.types(), [("inuse_objects", "count"), ("inuse_space", "bytes")]);
    assert!(heap.total() > 64 << 10, "{} bytes", heap.total());
    assert!(heap.names("mixer_config::") && !heap.names("SampledAllocator"));
}

#[test]
fn heap_sampling_from_the_start_sees_the_configuration() {
    let stage = Stage::new(&["--heap-profile-rate=16384"]);
    let heap = Profile::get(&stage, "/debug/pprof/heap");
    assert!(
        heap.names("mixer_engine::snapshot::"),
        "the configuration is loaded before the profile is requested"
    );
}
