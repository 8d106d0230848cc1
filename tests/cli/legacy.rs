//! `mixs` and `mixc`: errors, usage and flag values are those of Istio Mixer.

use crate::{first_line, run, scenario};

#[test]
fn errors_are_those_of_istio_mixer() {
    let table: &[(&[&str], &str)] = &[
        (&["mixc", "check", "--nosuch"], "Error: unknown flag: --nosuch"),
        (&["mixc", "check", "--string-attributes", "a=b"], "Error: unknown flag: --string-attributes"),
        (&["mixc", "check", "--repea", "1"], "Error: unknown flag: --repea"),
        (&["mixc", "check", "---x"], "Error: bad flag syntax: ---x"),
        (&["mixc", "check", "--=x"], "Error: bad flag syntax: --=x"),
        (&["mixc", "check", "-Z"], "Error: unknown shorthand flag: 'Z' in -Z"),
        (&["mixc", "check", "-o", "json"], "Error: unknown shorthand flag: 'o' in -o"),
        (&["mixc", "check", "-q"], "Error: flag needs an argument: 'q' in -q"),
        (&["mixc", "check", "--mixer"], "Error: flag needs an argument: --mixer"),
        (&["mixc", "check", "extra"], "Error: accepts 0 arg(s), received 1"),
        (&["mixc", "check", "--", "-s", "x"], "Error: accepts 0 arg(s), received 2"),
        (&["mixc", "version", "extra"], "Error: accepts 0 arg(s), received 1"),
        (
            &["mixc", "check", "--repeat", "x"],
            "Error: invalid argument \"x\" for \"-r, --repeat\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            &["mixs", "server", "--numCheckCacheEntries", "2147483648"],
            "Error: invalid argument \"2147483648\" for \"--numCheckCacheEntries\" flag: strconv.ParseInt: parsing \"2147483648\": value out of range",
        ),
        (
            &["mixs", "server", "--profile=maybe"],
            "Error: invalid argument \"maybe\" for \"--profile\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (&["mixs", "server", "--profile", "false"], "Error: accepts 0 arg(s), received 1"),
        (&["mixc", "nosuch"], "Error: unknown command \"nosuch\" for \"mixc\""),
        (&["mixs", "crd", "nosuch"], "Error: unknown command \"nosuch\" for \"mixs crd\""),
        (&["mixs", "version", "-o", "xml"], "Error: --output must be 'yaml' or 'json'"),
    ];
    for (args, text) in table {
        let ran = run(args);
        assert_eq!((ran.code, first_line(&ran.err), ran.out.as_str()), (255, *text, ""), "{args:?}");
    }
}

#[test]
fn flag_errors_end_with_the_usage_block() {
    let ran = run(&["mixc", "check", "--nosuch"]);
    assert!(
        ran.err.starts_with("Error: unknown flag: --nosuch\nUsage:\n  mixc check [flags]\n\nFlags:\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with("\n\n"));
    let galley = run(&["galley", "probe", "--nosuch"]);
    assert_eq!(galley.err, "Error: unknown flag: --nosuch\n");
}

#[test]
fn flag_values_are_parsed_like_pflag() {
    let target = scenario("harbor");
    let check = |flags: &[&str]| {
        let mut args = vec!["mixc", "check", "--config", &target];
        args.extend(flags);
        run(&args)
    };
    let denied = "Check RPC completed successfully. Check status was PERMISSION_DENIED (pier.denier.istio-system:the pier is closed)";
    let granted = "Check RPC completed successfully. Check status was OK";
    for flags in [
        &["-s", "source.user=smuggler"][..],
        &["-ssource.user=smuggler"],
        &["-s=source.user=smuggler"],
        &["--string_attributes=source.user=smuggler"],
        &["-s", "source.user=ann", "-s", "source.user=smuggler"],
        &["-s", "source.user=ann", "-a", "source.user=smuggler"],
        &["-q", "", "-s", "source.user=smuggler"],
        &["-s", "source.user=smuggler", "--print_response=true"],
    ] {
        let ran = check(flags);
        assert_eq!((ran.code, first_line(&ran.out)), (0, denied), "{flags:?} {}", ran.err);
    }
    for flags in [&["-s", "source.user=-ann"][..], &["-r", "0x1"], &["-r", "01"], &["--trace_log_spans"]] {
        let ran = check(flags);
        assert_eq!((ran.code, first_line(&ran.out)), (0, granted), "{flags:?} {}", ran.err);
    }
    for flags in [&["-r", "0"][..], &["-r", "-4"], &["--print_response=0"]] {
        let ran = check(flags);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""), "{flags:?}");
    }
    assert_eq!(check(&["-r", "010"]).out.matches("Check RPC").count(), 8, "a leading zero means octal");
}

#[test]
fn the_first_invalid_attribute_flag_is_reported_in_a_fixed_order() {
    let ran = run(&["mixc", "check", "-t", "t=bad", "-i", "n=bad"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "strconv.ParseInt: parsing \"bad\": invalid syntax\n"));
    let ran = run(&["mixc", "check", "-s", "bad", "-q", "bad", "-c", "0"]);
    assert_eq!(ran.err, "Quota definition bad does not include an = sign\n");
    let ran = run(&["mixc", "check", "-c", "0"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "concurrency has to be at least 1\n"));
    let ran = run(&["mixc", "report", "--report_batch_size", "0"]);
    assert_eq!((ran.code, ran.err.as_str()), (255, "report batch size has to be at least 1\n"));
    let ran = run(&["mixc", "check", "--trace_zipkin_url", "a", "--trace_jaeger_url", "b"]);
    assert_eq!(
        ran.err,
        "Unable to establish connection to localhost:9091: could not build tracer: can't have Jaeger and Zipkin outputs active simultaneously\n"
    );
}

#[test]
fn invalid_settings_are_a_startup_error_before_anything_is_opened() {
    let table: &[(&[&str], &str)] = &[
        (&["--maxMessageSize", "0"], "max message size must be > 0, got 0"),
        (&["--apiWorkerPoolSize", "0"], "api worker pool size must be > 0, got pool size 0"),
        (&["--log_output_level", "loud"], "invalid output level 'loud'"),
        (&["--address", "foo://x"], "unable to listen: listen foo: unknown network foo"),
    ];
    for (flags, text) in table {
        let ran = run(&[&["mixs", "server", "--configStoreURL", "fs:///nowhere"][..], flags].concat());
        assert_eq!((ran.code, ran.err), (255, format!("Unable to initialize Mixer: {text}\n")), "{flags:?}");
        assert!(ran.out.starts_with("Mixer started with\nMaxMessageSize:  "), "{}", ran.out);
    }
    let ran = run(&["mixer", "server", "--max-message-size", "0"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
}

/// Without it every call is over the rate of Istio Mixer, whatever that is.
#[test]
fn the_burst_is_nothing_by_default_as_in_istio_mixer() {
    let of = |program: &str| run(&[program, "server", "--print-config", "--maxRequestsPerSecond=5"]).out;
    let line = |text: &str| text.lines().find(|line| line.contains("burst-size: ")).map(str::to_owned);
    assert!(line(&of("mixs")).is_some_and(|line| line.starts_with("burst-size: 0 ")), "{}", of("mixs"));
    assert!(line(&of("mixer")).is_some_and(|line| line.starts_with("# burst-size: ")), "{}", of("mixer"));
    let banner = run(&["mixs", "server", "--configStoreURL", "fs:///nowhere", "--maxMessageSize", "0"]).out;
    assert!(banner.contains(" maxRequestsPerSecond=0 burstSize=0\n"), "{banner}");
}
