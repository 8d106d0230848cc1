//! Observations become series and values.

use super::*;

#[tokio::test]
async fn each_kind_aggregates_as_documented() {
    let env = test_env("h.istio-system");
    let instances = [metric("g", &["l"]), metric("c", &["l"]), metric("d", &["l"])];
    let explicit = ExplicitBuckets { bounds: vec![1.0, 2.5, 100.0] };
    let buckets =
        Some(BucketsDefinition { explicit_buckets: Some(explicit), ..BucketsDefinition::default() });
    let params = params(vec![
        info("g", MetricKind::Gauge, &["l"]),
        info("c", MetricKind::Counter, &["l"]),
        MetricInfo {
            buckets,
            description: "a \"d\"\n\\".to_owned(),
            ..info("d", MetricKind::Distribution, &["l"])
        },
    ]);
    let handler = build(&params, &instances, &env).await.unwrap();
    assert_eq!(env.commons.get::<Endpoint>().text(), b"");
    for value in [1.0, 2.4, 100.5] {
        for (bound, instance) in instances.iter().enumerate() {
            report(&*handler, bound, &instance.name, &[number(value), text("q\"\\\n")]).unwrap();
        }
    }
    report(&*handler, 2, &instances[2].name, &[number(f64::NAN), text("nan")]).unwrap();
    report(&*handler, 0, &instances[0].name, &[number(-3.0), text("b")]).unwrap();
    let expected = [
        "# HELP istio_c c",
        "# TYPE istio_c counter",
        r#"istio_c{l="q\"\\\n"} 103.9"#,
        r#"# HELP istio_d a "d"\n\\"#,
        "# TYPE istio_d histogram",
        r#"istio_d_bucket{l="nan",le="1"} 0"#,
        r#"istio_d_bucket{l="nan",le="2.5"} 0"#,
        r#"istio_d_bucket{l="nan",le="100"} 0"#,
        r#"istio_d_bucket{l="nan",le="+Inf"} 1"#,
        r#"istio_d_sum{l="nan"} NaN"#,
        r#"istio_d_count{l="nan"} 1"#,
        r#"istio_d_bucket{l="q\"\\\n",le="1"} 1"#,
        r#"istio_d_bucket{l="q\"\\\n",le="2.5"} 2"#,
        r#"istio_d_bucket{l="q\"\\\n",le="100"} 2"#,
        r#"istio_d_bucket{l="q\"\\\n",le="+Inf"} 3"#,
        r#"istio_d_sum{l="q\"\\\n"} 103.9"#,
        r#"istio_d_count{l="q\"\\\n"} 3"#,
        "# HELP istio_g g",
        "# TYPE istio_g gauge",
        r#"istio_g{l="b"} -3"#,
        r#"istio_g{l="q\"\\\n"} 100.5"#,
        "",
    ];
    assert_eq!(String::from_utf8(env.commons.get::<Endpoint>().text()).unwrap(), expected.join("\n"));
}

#[tokio::test]
async fn values_are_numbers_or_errors() {
    let env = test_env("h.istio-system");
    let m = metric("m", &[]);
    let handler = build(&params(vec![info("m", MetricKind::Gauge, &[])]), std::slice::from_ref(&m), &env)
        .await
        .unwrap();
    let good = [
        (Value::Int64(5), "5"),
        (Value::Double(1e21), "1e+21"),
        (Value::Duration(SignedDuration::from_nanos(1_500_000_000)), "1.5"),
        (Value::String(b"2.25e2"), "225"),
        (Value::String(b"NaN"), "NaN"),
        (Value::String(b"-Inf"), "-Inf"),
    ];
    for (value, shown) in good {
        report(&*handler, 0, &m.name, &[Some(value)]).unwrap();
        assert_eq!(scrape(&env), [format!("istio_m {shown}")]);
    }
    let bad = [
        (None, "could not extract numeric value for <nil>"),
        (Some(Value::Bool(true)), "could not extract numeric value for true"),
        (Some(Value::String(b"/x")), "strconv.ParseFloat: parsing \"/x\": invalid syntax"),
        (Some(Value::String(b"1e400")), "strconv.ParseFloat: parsing \"1e400\": value out of range"),
        (Some(Value::String(b"\xff")), "strconv.ParseFloat: parsing \"\\xff\": invalid syntax"),
    ];
    for (value, why) in bad {
        let error = report(&*handler, 0, &m.name, &[value]).unwrap_err();
        let text = format!("could not get value for metric m.instance.istio-system: {why}");
        assert_eq!(error.message, join_errors(&[text]));
    }
    assert_eq!(scrape(&env), ["istio_m -Inf"]);
}

#[tokio::test]
async fn one_bad_instance_does_not_stop_the_others() {
    let env = test_env("h.istio-system");
    let instances = [metric("good", &["l"]), metric("other", &[]), metric("wide", &["a", "b"])];
    let metrics = vec![info("good", MetricKind::Counter, &["l"]), info("wide", MetricKind::Counter, &["a"])];
    let handler = build(&params(metrics), &instances, &env).await.unwrap();
    let one = [number(1.0), text("x")];
    let negative = [number(-1.0), text("x")];
    let invalid = [number(1.0), Some(Value::String(b"\xff"))];
    let wide = [number(1.0), text("/"), text("ann")];
    let error = reports(
        &*handler,
        &[
            (1, &instances[1].name, &[number(1.0)]),
            (0, &instances[0].name, &negative),
            (0, &instances[0].name, &one),
            (2, &instances[2].name, &wide),
            (0, &instances[0].name, &invalid),
            (9, "unknown", &one),
            (0, &instances[0].name, &one),
        ],
    )
    .unwrap_err();
    let expected = [
        "could not find metric info from adapter config for other.instance.istio-system",
        "counter cannot decrease in value",
        r#"inconsistent label cardinality: expected 1 label values but got 2 in prometheus.Labels{"a":"/", "b":"ann"}"#,
        "label value \"\\xff\" is not valid UTF-8",
        "could not find metric info from adapter config for unknown",
    ];
    assert_eq!(error.message, join_errors(&expected));
    assert_eq!(scrape(&env), [r#"istio_good{l="x"} 2"#]);
}

#[tokio::test]
async fn a_counter_that_would_decrease_exists_from_then_on() {
    let env = test_env("h.istio-system");
    let instances = [metric("c", &["l"])];
    let handler =
        build(&params(vec![info("c", MetricKind::Counter, &["l"])]), &instances, &env).await.unwrap();
    let error = report(&*handler, 0, &instances[0].name, &[number(-5.0), text("x")]).unwrap_err();
    assert_eq!(error.message, join_errors(&["counter cannot decrease in value"]));
    assert_eq!(scrape(&env), [r#"istio_c{l="x"} 0"#]);
}

#[tokio::test]
async fn an_unknown_dimension_and_a_wrong_number_of_dimensions_are_different_errors() {
    let env = test_env("h.istio-system");
    let instances = [metric("c", &["l"])];
    let handler =
        build(&params(vec![info("c", MetricKind::Gauge, &["a_b"])]), &instances, &env).await.unwrap();
    let error = report(&*handler, 0, &instances[0].name, &[number(5.0), text("x")]).unwrap_err();
    assert_eq!(error.message, join_errors(&[r#"label name "a_b" missing in label map"#]));
}

#[tokio::test]
async fn equal_dimensions_share_a_key_and_different_ones_do_not() {
    let env = test_env("h.istio-system");
    let instances = [metric("one", &["a", "b"]), metric("two", &["a", "b"]), metric("three", &["b"])];
    let metrics = vec![
        info("one", MetricKind::Counter, &["a", "b"]),
        info("two", MetricKind::Counter, &["b", "a"]),
        info("three", MetricKind::Counter, &["b"]),
    ];
    let handler = build(&params(metrics), &instances, &env).await.unwrap();
    for (a, b) in [("x", "y"), ("x", "z")] {
        let both = [number(1.0), text(a), text(b)];
        let only = [number(1.0), text(b)];
        let all: [(usize, &str, &[_]); 3] =
            [(0, &instances[0].name, &both), (1, &instances[1].name, &both), (2, &instances[2].name, &only)];
        reports(&*handler, &all).unwrap();
    }
    assert_eq!(
        scrape(&env),
        [
            r#"istio_one{a="x",b="y"} 1"#,
            r#"istio_one{a="x",b="z"} 1"#,
            r#"istio_three{b="y"} 1"#,
            r#"istio_three{b="z"} 1"#,
            r#"istio_two{a="x",b="y"} 1"#,
            r#"istio_two{a="x",b="z"} 1"#,
        ]
    );
}

#[tokio::test]
async fn values_with_one_text_are_one_series() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Counter, &["l"])]), std::slice::from_ref(&m), &env)
            .await
            .unwrap();
    let v4 = [10, 0, 0, 1];
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1];
    let instant = |nanos| Some(Value::Timestamp(Timestamp { seconds: 0, nanos }));
    let twins: [[Option<Value<'_>>; 2]; 4] = [
        [Some(Value::Bytes(&v4)), Some(Value::Bytes(&mapped))],
        [instant(1_000), instant(1_999)],
        [Some(Value::Int64(7)), text("7")],
        [None, text("")],
    ];
    for label in twins.iter().flatten() {
        report(&*handler, 0, &m.name, &[number(1.0), *label]).unwrap();
    }
    let expected =
        ["", "10.0.0.1", "1970-01-01T00:00:00.000001Z", "7"].map(|l| format!("istio_m{{l=\"{l}\"}} 2"));
    assert_eq!(scrape(&env), expected);
}

#[tokio::test]
async fn threads_add_up() {
    let env = test_env("h.istio-system");
    let instances = [metric("c", &["l"]), metric("g", &["l"])];
    let metrics = vec![info("c", MetricKind::Counter, &["l"]), info("g", MetricKind::Gauge, &["l"])];
    let handler: Arc<dyn Handler> = build(&params(metrics), &instances, &env).await.unwrap().into();
    let (c, g) = (&instances[0].name, &instances[1].name);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let handler = &*handler;
            scope.spawn(move || {
                mixer_base::shard::claim(thread);
                for i in 0..1000 {
                    let label = ["a", "b", "c"][i % 3];
                    let values = [number(1.0), text(label)];
                    reports(handler, &[(0, c, &values), (1, g, &values)]).unwrap();
                }
            });
        }
        for _ in 0..20 {
            env.commons.get::<Endpoint>().text();
        }
    });
    mixer_base::shard::claim(1);
    report(&*handler, 1, g, &[number(7.0), text("a")]).unwrap();
    mixer_base::shard::claim(0);
    report(&*handler, 1, g, &[number(8.0), text("b")]).unwrap();
    let expected = [
        "istio_c{l=\"a\"} 1336",
        "istio_c{l=\"b\"} 1332",
        "istio_c{l=\"c\"} 1332",
        "istio_g{l=\"a\"} 7",
        "istio_g{l=\"b\"} 8",
        "istio_g{l=\"c\"} 1",
    ];
    assert_eq!(scrape(&env), expected);
}

/// A number that is halfway between two texts of the same length: as in Go, the text whose last digit is even.
#[expect(clippy::excessive_precision, reason = "these are the ties")]
#[tokio::test]
async fn a_label_that_is_a_tie_is_written_as_in_go() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Counter, &["l"])]), std::slice::from_ref(&m), &env).await;
    let handler = handler.unwrap();
    for tie in [1_125_899_906_842_624.25, 1_125_899_906_842_624.75, -99_999_999_999_998.125_f64] {
        report(&*handler, 0, &m.name, &[number(1.0), number(tie)]).unwrap();
    }
    let lines = scrape(&env);
    for text in ["1125899906842624.2", "1125899906842624.8", "-99999999999998.12"] {
        assert!(lines.contains(&format!("istio_m{{l=\"{text}\"}} 1")), "{text}: {lines:?}");
    }
}
