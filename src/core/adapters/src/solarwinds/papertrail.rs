//! Log entries as syslog messages, and their way to Papertrail.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::text::ip_text;
use mixer_attribute::{Timestamp, Value};
use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_engine::adapter::{BoundInstance, Clock, Instance};
use mixer_remote::{Answer, DatagramTarget, StreamTarget};

use crate::go_template::{GoTemplate, Printing};
use crate::outage::Outage;

/// Facility `kern` and severity `info`, whatever the entry has, and the name of the program, as Istio Mixer sends them.
const PRIORITY: u8 = 6;
const PROGRAM: &str = "istio";
/// The variable that is replaced by the time at which the entry arrived.
const TIME: &str = "timestamp";
/// The variable with an address, which is printed as one.
const ORIGIN: &str = "originIp";
/// How long messages that are too old are dropped for, a batch at a time, while the backend is away.
const AGEING: Duration = Duration::from_millis(500);

/// A message, with the line feed at its end.
pub(super) struct Message {
    /// By the monotonic clock.
    arrived: Duration,
    text: Box<[u8]>,
}

impl Item for Message {
    fn size(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// What is the same in all messages of a handler.
pub(super) struct Origin {
    host: String,
    process: u32,
    clock: Arc<dyn Clock>,
    printing: Printing,
}

impl Origin {
    pub(super) fn new(clock: Arc<dyn Clock>, escape_html: bool) -> Self {
        let printing = if escape_html { Printing::Html } else { Printing::Plain };
        Self { host: crate::host::name(), process: std::process::id(), clock, printing }
    }
}

/// How instances become messages.
pub(super) struct MessageTemplate {
    text: GoTemplate,
    variables: Vec<(String, usize)>,
}

/// The template of an entry without one: as in access logs, with `-` for what is empty.
fn default_template() -> String {
    let of = |term: &str| format!("{{{{or ({term}) \"-\"}}}}");
    let [origin, user, method] = [".originIp", ".sourceUser", ".method"].map(of);
    let [url, protocol, code, size] = [".url", ".protocol", ".responseCode", ".responseSize"].map(of);
    let time = of(".timestamp.Format \"2006-01-02T15:04:05Z07:00\"");
    format!("{origin} - {user} [{time}] \"{method} {url} {protocol}\" {code} {size}")
}

impl MessageTemplate {
    /// Errors: the template is none.
    pub(super) fn new(instance: &BoundInstance, template: &str) -> Result<Self, String> {
        let text = match template.trim() {
            "" => GoTemplate::parse(&instance.name, &default_template()),
            _ => GoTemplate::parse(&instance.name, template),
        };
        let variables = instance.entries("variables").map(|(key, at)| (key.to_owned(), at)).collect();
        Ok(Self { text: text?, variables })
    }

    /// The message of an instance, unless it has no text, and why its template could not be executed to its end.
    pub(super) fn message(
        &self,
        origin: &Origin,
        instance: &Instance<'_>,
    ) -> (Option<Message>, Option<String>) {
        let now = origin.clock.now();
        let variable = |name: &str| {
            let (_, at) = self.variables.iter().find(|(known, _)| known == name)?;
            instance.value(*at)
        };
        let address = match variable(ORIGIN) {
            Some(Value::Bytes(octets)) => Some(ip_text(octets).to_string()),
            _ => None,
        };
        let data = |name: &str| match (name, &address) {
            (TIME, _) => Some(Value::Timestamp(now)),
            (ORIGIN, Some(address)) => Some(Value::String(address.as_bytes())),
            _ => variable(name),
        };
        let mut payload = Vec::new();
        let failure = self.text.execute(&data, origin.printing, &mut payload).err();
        while payload.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
            payload.pop();
        }
        if payload.is_empty() {
            return (None, failure);
        }
        let seconds = Timestamp { seconds: now.seconds, nanos: 0 };
        let mut text = Vec::with_capacity(payload.len() + 96);
        // Writing to a Vec cannot fail.
        let _ =
            write!(text, "<{PRIORITY}>{} {} {PROGRAM}[{}]: ", seconds.rfc3339(), origin.host, origin.process);
        push_one_line(&mut text, &payload);
        text.push(b'\n');
        (Some(Message { arrived: origin.clock.monotonic(), text: text.into() }), failure)
    }
}

/// Appends a text on one line: a line feed would begin another message, whose origin a caller could choose. Istio Mixer drops what follows it.
fn push_one_line(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        // Writing to a Vec cannot fail.
        let _ = match byte {
            b'\n' => out.write_all(b"\\n"),
            b'\r' => out.write_all(b"\\r"),
            b'\t' => out.write_all(b"\t"),
            control if control.is_ascii_control() => write!(out, "\\x{control:02x}"),
            other => out.write_all(&[*other]),
        };
    }
}

/// How messages are sent.
pub(super) enum Transport {
    Datagrams(DatagramTarget),
    Stream(Box<StreamTarget>),
}

/// Sends messages.
pub(super) struct Syslog {
    pub(super) transport: Transport,
    /// How long a message is kept that cannot be sent.
    pub(super) retention: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) outage: Outage,
}

/// What became of the messages of a batch.
#[derive(Default)]
struct Sent {
    /// Messages that need not be sent again.
    done: usize,
    refused: Option<String>,
    again: Option<(String, Duration)>,
}

impl Transport {
    async fn send(&mut self, messages: &[Message], tally: &mut Tally) -> Sent {
        let mut sent = Sent::default();
        match self {
            Transport::Stream(target) => {
                let bytes: Vec<u8> = messages.iter().flat_map(|message| &*message.text).copied().collect();
                match target.send(&bytes).await {
                    Answer::Delivered => {
                        tally.delivered(messages.len());
                        sent.done = messages.len();
                    }
                    Answer::Refused(why) => {
                        sent.done = messages.len();
                        sent.refused = Some(why);
                    }
                    Answer::Retry { why, after } => sent.again = Some((why, after)),
                }
            }
            Transport::Datagrams(target) => {
                for message in messages {
                    match target.send(&message.text).await {
                        Answer::Delivered => tally.delivered(1),
                        Answer::Refused(why) => sent.refused = Some(why),
                        Answer::Retry { why, after } => {
                            sent.again = Some((why, after));
                            break;
                        }
                    }
                    sent.done += 1;
                }
            }
        }
        sent
    }
}

impl AsyncSink<List<Message>> for Syslog {
    async fn deliver(&mut self, batch: &mut List<Message>, tally: &mut Tally) {
        let sent = self.transport.send(batch.as_slice(), tally).await;
        for _ in 0..sent.done {
            batch.pop();
        }
        match (sent.again, sent.refused) {
            (Some((why, after)), _) => {
                self.outage.failed(&why);
                let now = self.clock.monotonic();
                let is_old = |message: &Message| now.saturating_sub(message.arrived) > self.retention;
                while batch.as_slice().first().is_some_and(is_old) {
                    batch.pop();
                }
                if batch.is_empty() {
                    // The next batch is not tried at once.
                    tokio::time::sleep(AGEING).await;
                }
                tally.try_again_after(why, after);
            }
            (None, Some(why)) => {
                self.outage.failed(&why);
                tally.give_up(why);
            }
            (None, None) => self.outage.ended(),
        }
    }
}
