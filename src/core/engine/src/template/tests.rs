//! The built-in templates against a table, so that a change of a descriptor is a change of this table.

use super::*;

/// Name, variety and package; then number, path and type of the fields; then those of the outputs.
const BUILT_IN: &str = "\
apikey Check apikey
  1 api STRING
  2 api_version STRING
  3 api_operation STRING
  4 api_key STRING
  5 timestamp TIMESTAMP
authorization Check authorization
  1 subject message
  1 subject.user STRING
  2 subject.groups STRING
  3 subject.properties map
  2 action message
  1 action.namespace STRING
  2 action.service STRING
  3 action.method STRING
  4 action.path STRING
  5 action.properties map
checknothing Check checknothing
edge Report edge
  1 timestamp TIMESTAMP
  10 source_workload_namespace STRING
  11 source_workload_name STRING
  12 source_owner STRING
  13 source_uid STRING
  20 destination_workload_namespace STRING
  21 destination_workload_name STRING
  22 destination_owner STRING
  23 destination_uid STRING
  24 destination_service_namespace STRING
  25 destination_service_name STRING
  30 context_protocol STRING
  31 api_protocol STRING
kubernetes AttributeGenerator adapter.template.kubernetes
  1 source_uid STRING
  2 source_ip IP_ADDRESS
  3 destination_uid STRING
  4 destination_ip IP_ADDRESS
  7 destination_port INT64
  out 1 source_pod_ip IP_ADDRESS
  out 2 source_pod_name STRING
  out 3 source_labels STRING_MAP
  out 4 source_namespace STRING
  out 6 source_service_account_name STRING
  out 7 source_host_ip IP_ADDRESS
  out 8 destination_pod_ip IP_ADDRESS
  out 9 destination_pod_name STRING
  out 10 destination_labels STRING_MAP
  out 11 destination_namespace STRING
  out 13 destination_service_account_name STRING
  out 14 destination_host_ip IP_ADDRESS
  out 22 source_workload_uid STRING
  out 23 source_workload_name STRING
  out 24 source_workload_namespace STRING
  out 25 source_owner STRING
  out 26 destination_owner STRING
  out 27 destination_workload_uid STRING
  out 28 destination_workload_name STRING
  out 29 destination_workload_namespace STRING
  out 30 destination_container_name STRING
  out 31 source_pod_uid STRING
  out 32 destination_pod_uid STRING
  out 1000 source_service_name STRING
  out 1001 source_service_namespace STRING
  out 1002 source_service_host STRING
  out 1003 destination_service_name STRING
  out 1004 destination_service_namespace STRING
  out 1005 destination_service_host STRING
listentry Check listentry
  1 value value
logentry Report logentry
  1 variables map
  2 timestamp TIMESTAMP
  3 severity STRING
  4 monitored_resource_type STRING
  5 monitored_resource_dimensions map
metric Report metric
  1 value value
  2 dimensions map
  3 monitored_resource_type STRING
  4 monitored_resource_dimensions map
quota Quota quota
  1 dimensions map
reportnothing Report reportnothing
servicecontrolreport Report servicecontrolreport
  1 api_version STRING
  2 api_operation STRING
  3 api_protocol STRING
  4 api_service STRING
  5 api_key STRING
  6 request_time TIMESTAMP
  7 request_method STRING
  8 request_path STRING
  9 request_bytes INT64
  10 response_time TIMESTAMP
  11 response_code INT64
  12 response_bytes INT64
  13 response_latency DURATION
tracespan Report tracespan
  1 trace_id STRING
  2 span_id STRING
  3 parent_span_id STRING
  4 span_name STRING
  5 start_time TIMESTAMP
  6 end_time TIMESTAMP
  7 span_tags map
  8 httpStatusCode INT64
  9 client_span BOOL
  10 rewrite_client_span_id BOOL
  11 source_name STRING
  12 source_ip IP_ADDRESS
  13 destination_name STRING
  14 destination_ip IP_ADDRESS
  15 request_size INT64
  16 request_total_size INT64
  17 response_size INT64
  18 response_total_size INT64
  19 api_protocol STRING
";

fn describe(fields: &[FieldInfo], out: &mut String) {
    for field in fields {
        let kind = match &field.kind {
            FieldKind::Value => "value",
            FieldKind::ValueMap => "map",
            FieldKind::Typed(value_type) => value_type.name(),
            FieldKind::Message(_) => "message",
        };
        assert_eq!(field.path.rsplit('.').next(), Some(&*field.name));
        *out += &format!("  {} {} {kind}\n", field.number, field.path);
        if let FieldKind::Message(inner) = &field.kind {
            describe(inner, out);
        }
    }
}

#[test]
fn the_built_in_templates_are_those_of_the_table() {
    let mut found = String::new();
    for template in TEMPLATES.iter() {
        let TemplateInfo { name, variety, package, .. } = &**template;
        found += &format!("{name} {variety:?} {package}\n");
        describe(&template.fields, &mut found);
        for output in template.output.iter() {
            found += &format!("  out {} {} {}\n", output.number, output.name, output.value_type);
        }
        assert_eq!(template.external, None);
    }
    for (found, wanted) in found.lines().zip(BUILT_IN.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found, BUILT_IN);
}

#[test]
fn whoever_finds_a_template_shares_it() {
    let (one, other) = (find("metric").unwrap(), find("metric").unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    assert!(find("metrics").is_none());
    let kubernetes = find("kubernetes").unwrap();
    assert_eq!(kubernetes.output_position("source_pod_name"), Some(1));
    assert_eq!(kubernetes.output_prefix(), "adapter_template_kubernetes.output.");
}
