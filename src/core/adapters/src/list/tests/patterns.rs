//! Work that callers cause by long values.

use super::*;

/// A value that takes too much work is refused by either kind of list, and is counted. As Istio Mixer, it is searched.
#[tokio::test]
async fn a_value_that_takes_too_much_work_is_refused() {
    let patterns: String = (0..70).map(|n| format!("a[ab]{{{}}}x\n", 10 + n % 20)).collect();
    let mut state = 1_u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"ab"[state as usize / 65_536 % 2]
    };
    let noise: Vec<u8> = (0..3000).map(letter).collect();
    for (blacklist, as_istio_mixer) in [(true, false), (false, false), (true, true)] {
        let server = Server::start(&ok(&patterns));
        let params = Params { entry_type: EntryType::Regex, blacklist, ..params(server.url()) };
        let env = test_env("h.istio-system");
        if as_istio_mixer {
            env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
        }
        let f = Fixture::within(params, env).await;
        let refused = "a value of 3000 bytes takes too much work for the patterns of the list";
        let (code, text) = f.ask(Some(Value::String(&noise)));
        let counted = f.handler.status().notes.iter().any(|(_, count)| count == "1");
        assert_eq!((text == refused, counted), (!as_istio_mixer, !as_istio_mixer), "{text}");
        assert!(as_istio_mixer || code == INVALID_ARGUMENT);
        let long = "/a".repeat(50_000);
        let (code, _) = f.ask(Some(Value::String(long.as_bytes())));
        assert_eq!(code == 0, blacklist, "a search that takes little work has a result");
    }
}
