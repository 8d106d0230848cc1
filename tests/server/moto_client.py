"""What boto3 says about the data of a moto server.

Usage: moto_client.py URL create GROUP STREAM | metrics NAMESPACE | events GROUP STREAM
"""

import datetime
import json
import sys

import boto3

URL, COMMAND, ARGUMENTS = sys.argv[1], sys.argv[2], sys.argv[3:]
KEY = {"aws_access_key_id": "AKIDLAB", "aws_secret_access_key": "labsecret", "region_name": "us-east-1", "endpoint_url": URL}

if COMMAND == "create":
    logs = boto3.client("logs", **KEY)
    logs.create_log_group(logGroupName=ARGUMENTS[0])
    logs.create_log_stream(logGroupName=ARGUMENTS[0], logStreamName=ARGUMENTS[1])
elif COMMAND == "metrics":
    monitoring = boto3.client("cloudwatch", **KEY)
    now = datetime.datetime.now(datetime.timezone.utc)
    sums = {}
    for metric in monitoring.list_metrics(Namespace=ARGUMENTS[0])["Metrics"]:
        found = monitoring.get_metric_statistics(
            Namespace=ARGUMENTS[0], MetricName=metric["MetricName"], Dimensions=metric["Dimensions"], Period=3600,
            StartTime=now - datetime.timedelta(hours=2), EndTime=now + datetime.timedelta(hours=2), Statistics=["Sum"])
        name = " ".join([metric["MetricName"]] + ["%(Name)s=%(Value)s" % of for of in metric["Dimensions"]])
        sums[name] = sum(point["Sum"] for point in found["Datapoints"])
    print(json.dumps(sums))
else:
    logs = boto3.client("logs", **KEY)
    messages, token = [], {}
    while True:
        page = logs.get_log_events(logGroupName=ARGUMENTS[0], logStreamName=ARGUMENTS[1], startFromHead=True, **token)
        messages += [event["message"] for event in page["events"]]
        if token.get("nextToken") == page["nextForwardToken"]:
            break
        token = {"nextToken": page["nextForwardToken"]}
    print(json.dumps(messages))
