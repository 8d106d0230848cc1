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

/// The errors of overrides.
fn errors(params: &Params) -> Vec<(String, String)> {
    let mut found = Diagnostics::new();
    ListChecker::validate(params, &[], &mut found);
    let errors = found.into_iter().filter(|problem| problem.severity == Severity::Error);
    errors.map(|problem| (problem.field.to_string(), problem.message.clone())).collect()
}

#[tokio::test]
async fn a_whitelist_of_patterns_that_match_everything_is_refused() {
    let build = async |params: &Params, as_istio_mixer: bool| {
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
        ListChecker::build(params.clone(), Vec::new(), env).await.is_ok()
    };
    for (pattern, is_refused) in [
        ("", true),
        ("^(ann|bob)$|", true),
        ("^(ann|bob)?$", true),
        (".*", true),
        (".", true),
        ("^.+$", true),
        ("a*", true),
        ("(?s:.)", true),
        (".+", true),
        ("(ann)|", true),
        ("^[^/]*$", true),
        // What they leave out is little, but meant.
        ("^.{1,256}$", false),
        ("^[^/]+$", false),
        ("^[^,;]+$", false),
        ("^[^\\x00-\\x1f]+$", false),
        ("^[\\pL\\pN -]+$", false),
        ("^[^A-Z]+$", false),
        ("^ann$", false),
        ("^[a-z]+$", false),
        ("^/api/", false),
        ("\\.", false),
    ] {
        let overrides = some(&["^eve$", pattern]);
        let whitelist = Params { entry_type: EntryType::Regex, overrides, ..Params::default() };
        let found = errors(&whitelist);
        assert_eq!(found.len(), usize::from(is_refused), "{pattern}: {found:?}");
        if is_refused {
            assert_eq!(found[0].0, "overrides[1]");
            assert!(
                found[0].1.contains("admits everybody") || found[0].1.contains("matches the empty value"),
                "{found:?}"
            );
        }
        assert_eq!(build(&whitelist, false).await, !is_refused, "{pattern}");
        assert!(build(&whitelist, true).await, "{pattern}");
        // A blacklist refuses everybody.
        let blacklist = Params { blacklist: true, ..whitelist };
        assert_eq!((errors(&blacklist), build(&blacklist, false).await), (Vec::new(), true), "{pattern}");
    }
}

#[tokio::test]
async fn a_provider_of_patterns_that_match_everything_is_a_failed_fetch() {
    for (body, wanted) in [
        ("^ann$\n^(bob|eve)?$\n", "line 2: the pattern matches the empty value"),
        ("^ann$\n^(bob|eve)$|\n", "line 2: the pattern matches every value"),
        (".+\n", "line 1: the pattern matches every value"),
        ("^ann$\n/^bob$/\n", "line 2: between slashes"),
    ] {
        let server = Server::start(&ok(body));
        let whitelist = Params { entry_type: EntryType::Regex, ..params(server.url()) };
        let f = Fixture::new(whitelist.clone()).await;
        let trouble = f.handler.degradation();
        assert!(trouble.as_ref().is_some_and(|why| why.contains(wanted)), "{body}: {trouble:?}");
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
        assert_eq!(Fixture::within(whitelist, env).await.handler.degradation(), None, "{body}");
    }
}

#[tokio::test]
async fn patterns_between_slashes_are_errors() {
    for entry_type in [EntryType::Regex, EntryType::Strings, EntryType::CaseInsensitiveStrings] {
        for blacklist in [false, true] {
            for (entry, is_refused) in
                [("/^eve$/", true), ("/^eve$/i", true), ("/^eve/", true), ("/eve$/", true), ("/eve/", false)]
            {
                let params =
                    Params { entry_type, blacklist, overrides: some(&["ann", entry]), ..Params::default() };
                let found = errors(&params);
                assert_eq!(found.len(), usize::from(is_refused), "{entry}: {found:?}");
                let built = ListChecker::build(params, Vec::new(), test_env("h.istio-system")).await;
                assert_eq!(built.is_err(), is_refused, "{entry}");
            }
        }
    }
}
