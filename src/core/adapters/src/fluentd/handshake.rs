//! The handshake of the forward protocol, by which both ends prove that they know the shared key.
//!
//! ```text
//! server: ["HELO", {nonce, auth, keepalive}]
//! client: ["PING", client, salt, sha512(salt + client + nonce + key), user, sha512(auth + user + password)]
//! server: ["PONG", is_accepted, reason, server, sha512(salt + server + nonce + key)]
//! ```
//!
//! `auth` is empty unless the server has users. Digests are hexadecimal. A server with the name of the client could return the digest of
//! the client without knowing the key, and is refused.

use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use rmp::encode as msgpack;

use mixer_remote::{Credential, Handshake, HandshakeStep};

use super::entry::push_text;
use super::read::{Unreadable, Value, value};

/// Bytes of a message of the server at most.
const MAX_MESSAGE: usize = 8 << 10;

/// Proves who the client is.
pub(super) struct SharedKey {
    /// Its own name.
    pub(super) hostname: String,
    pub(super) key: Credential,
    /// For servers with users.
    pub(super) user: Option<User>,
    pub(super) state: State,
}

/// A user and the password.
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: Credential,
}

/// What the handshake waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Helo,
    Pong {
        nonce: Vec<u8>,
        salt: String,
    },
}

impl Handshake for SharedKey {
    fn begin(&mut self) {
        self.state = State::Helo;
    }

    fn step(&mut self, received: &[u8]) -> Result<HandshakeStep, String> {
        let mut rest = received;
        let message = match value(&mut rest) {
            Ok(Some(message)) if rest.is_empty() => message,
            Ok(None) if received.len() < MAX_MESSAGE => return Ok(HandshakeStep::More),
            Ok(_) | Err(Unreadable) => return Err(unexpected(&self.state).to_owned()),
        };
        match std::mem::take(&mut self.state) {
            State::Helo => self.ping(&message),
            State::Pong { nonce, salt } => self.check_pong(&message, &nonce, &salt),
        }
    }
}

impl SharedKey {
    fn ping(&mut self, helo: &Value<'_>) -> Result<HandshakeStep, String> {
        let unexpected = || unexpected(&State::Helo).to_owned();
        let Value::Array(parts) = helo else { return Err(unexpected()) };
        let [Value::Text(b"HELO"), Value::Map(options)] = parts.as_slice() else { return Err(unexpected()) };
        let option = |name: &[u8]| {
            let found = options.iter().find(|(key, _)| *key == Value::Text(name));
            match found {
                Some((_, Value::Text(text))) => *text,
                _ => b"",
            }
        };
        let (nonce, auth) = (option(b"nonce").to_vec(), option(b"auth"));
        let salt = salt()?;
        let proof = self.proof(&salt, self.hostname.as_bytes(), &nonce);
        let (user, password) = match &self.user {
            _ if auth.is_empty() => (String::new(), String::new()),
            None => {
                return Err("the server asks for a user: set `sharedKey.username` and a password".to_owned());
            }
            Some(User { name, password }) => {
                let secret = password.blocking_secret();
                (name.clone(), digest(&[auth, name.as_bytes(), secret.expose().as_bytes()]))
            }
        };
        let mut ping = Vec::new();
        // Writing to a Vec cannot fail.
        let _ = msgpack::write_array_len(&mut ping, 6);
        for part in ["PING", &self.hostname, &salt, &proof, &user, &password] {
            push_text(&mut ping, part.as_bytes());
        }
        self.state = State::Pong { nonce, salt };
        Ok(HandshakeStep::Send(ping))
    }

    fn check_pong(&self, pong: &Value<'_>, nonce: &[u8], salt: &str) -> Result<HandshakeStep, String> {
        let Value::Array(parts) = pong else { return Err(PONG_EXPECTED.to_owned()) };
        let [
            Value::Text(b"PONG"),
            Value::Bool(is_accepted),
            Value::Text(reason),
            Value::Text(server),
            Value::Text(proof),
        ] = parts.as_slice()
        else {
            return Err(PONG_EXPECTED.to_owned());
        };
        if !is_accepted {
            let reason = mixer_remote::foreign(&String::from_utf8_lossy(reason));
            return Err(format!("the server refuses the shared key or the user: {reason}"));
        }
        if *server == self.hostname.as_bytes() {
            return Err(
                "the server has the name of this client: set `sharedKey.hostname` to another one".to_owned()
            );
        }
        if self.proof(salt, server, nonce).as_bytes() != *proof {
            return Err("the server does not know the shared key".to_owned());
        }
        Ok(HandshakeStep::Done)
    }

    /// The digest by which the end with this name proves that it knows the key.
    fn proof(&self, salt: &str, name: &[u8], nonce: &[u8]) -> String {
        digest(&[salt.as_bytes(), name, nonce, self.key.blocking_secret().expose().as_bytes()])
    }
}

const PONG_EXPECTED: &str = "the server does not answer the handshake as the forward protocol says";

/// Why a message of the server is none of the handshake.
fn unexpected(state: &State) -> &'static str {
    match state {
        State::Helo => "the server begins no handshake of the forward protocol: has it a shared key?",
        State::Pong { .. } => PONG_EXPECTED,
    }
}

fn salt() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "there is no randomness".to_owned())?;
    Ok(hexadecimal(&bytes))
}

fn digest(parts: &[&[u8]]) -> String {
    let mut context = digest::Context::new(&digest::SHA512);
    parts.iter().for_each(|part| context.update(part));
    hexadecimal(context.finish().as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared_key(user: bool) -> SharedKey {
        let secret = Credential::from_configuration;
        let user = user.then(|| User { name: "ann".to_owned(), password: secret("hunter2") });
        SharedKey { hostname: "mixer".to_owned(), key: secret("key"), user, state: State::default() }
    }

    /// Writes a part of a message.
    type Part<'p> = &'p dyn Fn(&mut Vec<u8>);

    fn message(parts: &[Part<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        msgpack::write_array_len(&mut out, parts.len() as u32).unwrap();
        parts.iter().for_each(|part| part(&mut out));
        out
    }

    fn text(text: &'static str) -> impl Fn(&mut Vec<u8>) {
        move |out| push_text(out, text.as_bytes())
    }

    fn helo(auth: &'static [u8]) -> Vec<u8> {
        let options = move |out: &mut Vec<u8>| {
            msgpack::write_map_len(out, 3).unwrap();
            push_text(out, b"nonce");
            msgpack::write_bin(out, b"\xff\x00nonce").unwrap();
            push_text(out, b"auth");
            msgpack::write_bin(out, auth).unwrap();
            push_text(out, b"keepalive");
            msgpack::write_bool(out, true).unwrap();
        };
        message(&[&text("HELO"), &options])
    }

    /// The texts of the PING after a HELO.
    fn ping(shared: &mut SharedKey, auth: &'static [u8]) -> Vec<String> {
        let Ok(HandshakeStep::Send(bytes)) = shared.step(&helo(auth)) else { panic!("a PING") };
        let Ok(Some(Value::Array(parts))) = value(&mut &*bytes) else { panic!("{bytes:?}") };
        let text = |part: &Value<'_>| match part {
            Value::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        parts.iter().map(text).collect()
    }

    fn pong(is_accepted: bool, server: &'static str, proof: &str) -> Vec<u8> {
        let proof = proof.to_owned();
        let flag = move |out: &mut Vec<u8>| msgpack::write_bool(out, is_accepted).unwrap();
        let proof = move |out: &mut Vec<u8>| push_text(out, proof.as_bytes());
        message(&[&text("PONG"), &flag, &text("not\nyou"), &text(server), &proof])
    }

    #[test]
    fn both_ends_prove_that_they_know_the_key() {
        let mut shared = shared_key(true);
        let ping_parts = ping(&mut shared, b"");
        let [kind, name, salt, proof, user, password] = &ping_parts[..] else { panic!("{ping_parts:?}") };
        assert_eq!((&**kind, &**name, &**user, &**password), ("PING", "mixer", "", ""));
        assert_eq!(salt.len(), 32);
        let of = |name: &str| digest(&[salt.as_bytes(), name.as_bytes(), b"\xff\x00nonce", b"key"]);
        assert_eq!(*proof, of("mixer"));
        assert_eq!(shared.clone_state().step(&pong(true, "fluent", &of("fluent"))), Ok(HandshakeStep::Done));
        let refused = |answer: &[u8]| shared.clone_state().step(answer).unwrap_err();
        assert_eq!(
            refused(&pong(false, "fluent", "")),
            "the server refuses the shared key or the user: not you"
        );
        assert!(refused(&pong(true, "fluent", &of("other"))).contains("does not know the shared key"));
        assert!(refused(&pong(true, "mixer", &of("mixer"))).contains("the name of this client"));
        assert_eq!(refused(&helo(b"")), PONG_EXPECTED);
        // Every connection has a salt of its own.
        shared.begin();
        assert_ne!(ping(&mut shared, b"")[2], *salt);
    }

    #[test]
    fn a_user_is_named_only_if_the_server_asks() {
        let parts = ping(&mut shared_key(true), b"salt");
        assert_eq!((&*parts[4], &parts[5]), ("ann", &digest(&[b"salt", b"ann", b"hunter2"])));
        let why = shared_key(false).step(&helo(b"salt")).unwrap_err();
        assert!(why.contains("sharedKey.username"), "{why}");
        assert_eq!(ping(&mut shared_key(false), b"")[4..], ["", ""]);
    }

    #[test]
    fn messages_are_read_as_they_arrive_and_garbage_is_refused() {
        let whole = helo(b"salt");
        for cut in 0..whole.len() {
            assert_eq!(shared_key(true).step(&whole[..cut]), Ok(HandshakeStep::More), "{cut} bytes");
        }
        let array = [b"\x92\xa4HELO\xa1x".as_slice(), b"HTTP/1.1 400", b"\x81\xa3ack\xa1x", b"\xc1", b"\x93"];
        for garbage in array.iter().take(4) {
            let why = shared_key(true).step(garbage).unwrap_err();
            assert!(why.contains("begins no handshake"), "{garbage:?}: {why}");
        }
        // A message that never ends.
        let endless = [b"\x92\xa4HELO\xda\xff\xff".as_slice(), &[b'x'; MAX_MESSAGE]].concat();
        assert!(shared_key(true).step(&endless).is_err());
        // Neither depth nor counts take more than the message has.
        assert!(shared_key(true).step(&[0x91; MAX_MESSAGE]).is_err());
        assert_eq!(shared_key(true).step(b"\xdd\xff\xff\xff\xff"), Ok(HandshakeStep::More));
    }

    impl SharedKey {
        /// Another one in the same state.
        fn clone_state(&self) -> Self {
            let mut other = shared_key(self.user.is_some());
            other.state = self.state.clone();
            other
        }
    }
}
