use super::*;
use mixer_attribute::{SignedDuration, StringMap, Timestamp};

fn value(key: &str) -> Option<Value<'static>> {
    static ENTRIES: &[(&[u8], &[u8])] = &[(b"b", b"2"), (b"a", b"1")];
    static MAP: StringMap<'static> = StringMap { entries: ENTRIES, source: None };
    Some(match key {
        "svc" => Value::String(b"a.b.c"),
        "empty" => Value::String(b""),
        "code" => Value::Int64(404),
        "zero" => Value::Int64(0),
        "ratio" => Value::Double(1.25),
        "large" => Value::Double(1e21),
        "on" => Value::Bool(true),
        "ip" => Value::Bytes(&[10, 0, 0, 1]),
        "took" => Value::Duration(SignedDuration::from_millis(1500)),
        "time" => Value::Timestamp(Timestamp { seconds: 1_551_434_407, nanos: 80_000_000 }),
        "html" => Value::String(b"<a href='x'>\"1+1\" & 2</a>"),
        "labels" => Value::StringMap(&MAP),
        "a.b" => Value::String(b"dotted"),
        _ => return None,
    })
}

fn printed(text: &str, printing: Printing) -> Result<String, String> {
    let template = GoTemplate::parse("m", text)?;
    let mut out = Vec::new();
    template.execute(&value, printing, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn executed(text: &str) -> Result<String, String> {
    printed(text, Printing::Text(|_| {}))
}

#[test]
fn what_is_printed_is_escaped_as_asked() {
    for (printing, text) in [
        (Printing::Text(<[u8]>::make_ascii_uppercase), "a<b><A HREF='X'>\"1+1\" & 2</A> < <NO VALUE>"),
        (Printing::Plain, "a<b><a href='x'>\"1+1\" & 2</a> < "),
        (Printing::Html, "a<b>&lt;a href=&#39;x&#39;&gt;&#34;1&#43;1&#34; &amp; 2&lt;/a&gt; &lt; "),
    ] {
        assert_eq!(printed("a<b>{{.html}} < {{.none}}", printing).as_deref(), Ok(text));
    }
}

#[test]
fn times_have_a_method() {
    for (template, text) in [
        ("{{.time.Format \"2006-01-02T15:04:05Z07:00\"}}", "2019-03-01T10:00:07Z"),
        ("{{or (.time.Format \"15:04\") \"-\"}}", "10:00"),
        ("{{\"Jan _2\" | .time.Format}}", "Mar  1"),
        ("{{with .time}}{{.Format \"2006\"}}{{end}}{{(.time).Format `06`}}", "201919"),
    ] {
        assert_eq!(executed(template).as_deref(), Ok(text), "{template}");
    }
    for template in
        ["{{.time.Format}}", "{{.time.Format 1}}", "{{.svc.Format \"2006\"}}", "{{.none.Format \"2006\"}}"]
    {
        assert!(executed(template).is_err(), "{template}: {:?}", executed(template));
    }
}

#[test]
fn templates_print_what_go_prints() {
    for (template, text) in [
        ("plain", "plain"),
        ("", ""),
        ("{{.svc}}-{{.code}}", "a.b.c-404"),
        ("{{.none}}", "<no value>"),
        ("{{.ratio}} {{.large}} {{.on}} {{.ip}} {{.took}}", "1.25 1e+21 true [10 0 0 1] 1.5s"),
        ("{{.labels}} {{.labels.a}}", "stringmap[a:1 b:2] 1"),
        ("{{index . \"a.b\"}}", "dotted"),
        ("{{or .empty .zero .svc}}", "a.b.c"),
        ("{{or .empty .zero}}", "0"),
        ("{{and .svc .code}}", "404"),
        ("{{not .empty}}", "true"),
        ("{{if .svc}}yes{{else}}no{{end}}", "yes"),
        ("{{if .none}}yes{{else if .on}}maybe{{else}}no{{end}}!", "maybe!"),
        ("{{if eq .code 200 404}}{{len .svc}}{{end}}", "5"),
        ("{{if gt .code 399}}error{{end}}", "error"),
        ("{{with .svc}}<{{.}}>{{end}}{{with .empty}}x{{else}}-{{end}}", "<a.b.c>-"),
        ("{{range .labels}}{{.}},{{else}}none{{end}}", "1,2,"),
        ("a {{- .code -}} b", "a404b"),
        ("a {{/* nothing */}} b", "a  b"),
        ("{{\"x\\n\"}}{{`raw\\n`}}{{'a'}}{{-3}}{{1.50}}", "x\nraw\\n97-31.5"),
        (
            "{{printf \"%s=%05d %.2f %q %v%%\" .svc .code .ratio .svc .on}}",
            "a.b.c=00404 1.25 \"a.b.c\" true%",
        ),
        ("{{.svc | printf \"%-7s|\"}}", "a.b.c  |"),
        ("{{print .code .zero .svc}}{{println 1 \"a\"}}", "404 0a.b.c1 a\n"),
        ("{{(index . \"labels\").b}}", "2"),
        ("{{printf \"%d\" .svc}}", "%!d(a.b.c)"),
        ("{{with .svc}}{{$.code}}{{end}}", "404"),
        ("{{.none.more}}{{print .none}}", "<no value><nil>"),
        ("{{eq .none nil}} {{ne .none .svc}} {{gt .took 1_000}}", "true true true"),
        ("{{- /* nothing */ -}} a", "a"),
    ] {
        assert_eq!(executed(template).as_deref(), Ok(text), "{template}");
    }
}

#[test]
fn what_is_not_a_template_is_named() {
    for (template, error) in [
        ("{{.a", "template: m:1: unclosed action"),
        ("{{}}", "template: m:1: missing value for command"),
        ("a\n{{.a | }}", "template: m:2: empty command"),
        ("{{if .a}}", "template: m:1: unexpected EOF"),
        ("{{end}}", "template: m:1: unexpected {{end}}"),
        ("{{nosuch .a}}", "template: m:1: function \"nosuch\" not defined"),
        ("{{$x := 1}}", "template: m:1: variables are not supported"),
        ("{{.a \"b\"}}", "template: m:1: only functions and the method Format of times have arguments"),
        ("{{template \"t\"}}", "template: m:1: {{template}} is not supported"),
        ("{{/* a", "template: m:1: unclosed comment"),
        ("{{ /* a */}}", "template: m:1: unexpected '/' in command"),
        ("{{..svc}}", "template: m:1: unexpected . after term \".\""),
        ("{{\"a}}", "template: m:1: unterminated quoted string"),
        ("{{1 | 2}}", "template: m:1: non executable command in pipeline"),
        ("{{)}}", "template: m:1: unexpected \")\" in command"),
        ("{{if .a}}{{else}}{{else}}{{end}}", "template: m:1: expected end; found {{else}}"),
    ] {
        assert_eq!(executed(template), Err(error.to_owned()), "{template}");
    }
    let deep = "{{if .a}}".repeat(100_000);
    assert_eq!(executed(&deep), Err("template: m:1: it is nested too deeply".to_owned()));
    let parentheses = format!("{{{{{}1{}}}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(executed(&parentheses), Err("template: m:1: it is nested too deeply".to_owned()));
}

#[test]
fn what_cannot_be_executed_is_an_error() {
    for template in [
        "{{lt .svc 1}}",
        "{{len .code}}",
        "{{index .svc 1}}",
        "{{.svc.more}}",
        "{{range .code}}{{end}}",
        "{{eq 1}}",
        "{{index .ip 9}}",
    ] {
        assert!(executed(template).is_err(), "{template}: {:?}", executed(template));
    }
}
