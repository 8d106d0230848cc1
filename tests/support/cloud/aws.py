"""A strict stand-in for CloudWatch: verifies signatures with botocore, reads requests by botocore's definitions of the services, and prints
them.

Usage: aws.py PORT DIRECTORY ACCESS_KEY SECRET_KEY [busy=N] [expired=N] [instance] [role=ARN] [web=TOKEN]

busy=N, expired=N: the first N requests are answered so. instance: gives the credentials as the instance metadata service, with the session
token TOKEN. role=ARN: that key can do nothing but assume this role, whose key all other requests need; with web=TOKEN, for that token of an
identity provider only. One JSON line a request: host, path, headers, and its content; `error` for what the service would not take.
"""

import base64
import datetime
import json
import re
import sys
import urllib.parse

import botocore.loaders
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

import stand

PORT, DIRECTORY, ACCESS_KEY, SECRET_KEY = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
OPTIONS = dict(option.partition("=")[::2] for option in sys.argv[5:])
TOKEN = "session/token=" if "instance" in OPTIONS else None
MODELS = {service: ServiceModel(botocore.loaders.Loader().load_service_model(service, "service-2"))
          for service in ("cloudwatch", "logs", "sts")}
# Secret and session token of the key that requests need, by its id, and of that which can assume a role.
OWN = {ACCESS_KEY: (SECRET_KEY, TOKEN)}
ROLE = {"ASIAROLE": ("rolesecret", "role/token=+")}
# The suffix of what the service calls itself in signatures.
SERVICES = {"monitoring": "cloudwatch", "logs": "logs", "sts": "sts"}
COUNTS = {}
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})")
SEQUENCE = {"token": "tok7"}


def first(option):
    """Whether this is one of the first requests."""
    with stand.LOCK:
        COUNTS[option] = COUNTS.get(option, 0) + 1
        return COUNTS[option] <= int(OPTIONS.get(option) or 0)


def verify(url, method, headers, body):
    """The region and the service of a request whose signature is valid."""
    match = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if match is None:
        raise ValueError("no signature: %s" % headers.get("authorization"))
    key, date, region, service, names, signature = match.groups()
    names = names.split(";")
    required = {"host", "content-type", "content-length"} | {name for name in headers if name.startswith("x-amz-")}
    keys = ROLE if "role" in OPTIONS and service != "sts" else OWN
    if key not in keys or not required.issubset(names) or names != sorted(names):
        raise ValueError("key %s, signed %s" % (key, names))
    secret, token = keys[key]
    if headers.get("x-amz-security-token") != token:
        raise ValueError("the session token is %r" % headers.get("x-amz-security-token"))
    at = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    age = abs((datetime.datetime.now(datetime.timezone.utc) - at).total_seconds())
    if age > 300 or not headers["x-amz-date"].startswith(date):
        raise ValueError("the date is %s" % headers["x-amz-date"])
    request = AWSRequest(method, url, headers={name: headers[name] for name in names}, data=body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(key, secret), service, region)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    if expected != signature:
        raise ValueError("the signature is not that of the request")
    return region, service


def validate(service, operation, params):
    report = ParamValidator().validate(params, MODELS[service].operation_model(operation).input_shape)
    if report.has_errors():
        raise ValueError(report.generate_report())


def metrics(body):
    """The parameters of a request of the Query protocol. Each is there once, and none is left over."""
    pairs = urllib.parse.parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
    left = dict(pairs)
    if len(left) != len(pairs):
        raise ValueError("a parameter comes twice")
    form = {name: left.pop(name) for name in ("Action", "Version", "Namespace")}
    if (form["Action"], form["Version"]) != ("PutMetricData", "2010-08-01"):
        raise ValueError("action %s" % form)
    units = MODELS["cloudwatch"].shape_for("StandardUnit").enum
    data, typed = [], []
    while "MetricData.member.%d.MetricName" % (len(data) + 1) in left:
        prefix = "MetricData.member.%d." % (len(data) + 1)
        datum = {name: left.pop(prefix + name) for name in ("MetricName", "Unit", "Value")}
        value = dict(datum, Value=float(datum["Value"]))
        if datum["Unit"] not in units:
            raise ValueError("unit %s" % datum["Unit"])
        time = left.pop(prefix + "Timestamp", None)
        if time is not None:
            datum["Timestamp"] = time
            value["Timestamp"] = datetime.datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")
        if prefix + "Dimensions" in left:
            datum["EmptyDimensionsParam"] = left.pop(prefix + "Dimensions")
        dimensions = []
        while prefix + "Dimensions.member.%d.Name" % (len(dimensions) + 1) in left:
            member = prefix + "Dimensions.member.%d." % (len(dimensions) + 1)
            dimensions.append({"Name": left.pop(member + "Name"), "Value": left.pop(member + "Value")})
        for dimension in dimensions:
            for text in dimension.values():
                if not text.isascii() or not text.isprintable() or not text.strip() or text.startswith(":") or len(text) > 1024:
                    raise ValueError("dimension %r" % dimension)
        datum["Dimensions"] = {dimension["Name"]: dimension["Value"] for dimension in dimensions}
        value["Dimensions"] = dimensions
        data.append(datum)
        typed.append(value)
    if left or not 1 <= len(data) <= 1000 or len(body) > 1 << 20:
        raise ValueError("%d data, %d bytes, left over: %s" % (len(data), len(body), left))
    validate("cloudwatch", "PutMetricData", {"Namespace": form["Namespace"], "MetricData": typed})
    return dict(form, MetricData=data)


def logs(operation, body):
    """The parameters of a request of the JSON protocol, by the rules of the service."""
    params = json.loads(body)
    validate("logs", operation, params)
    members = MODELS["logs"].operation_model(operation).input_shape.members
    unknown = set(params) - set(members)
    if unknown:
        raise ValueError("unknown: %s" % unknown)
    if operation == "PutLogEvents":
        events = params["logEvents"]
        times = [event["timestamp"] for event in events]
        sizes = [len(event["message"].encode()) + 26 for event in events]
        if times != sorted(times) or times[-1] - times[0] > 24 * 3600 * 1000:
            raise ValueError("the times are %s" % times)
        if len(events) > 10000 or sum(sizes) > 1 << 20 or max(sizes) > 256 << 10 or min(sizes) == 26:
            raise ValueError("%d entries with %d bytes" % (len(events), sum(sizes)))
    return params


def assume(url, method, headers, body):
    """The form of a request of a role, and the answer."""
    form = dict(urllib.parse.parse_qsl(body.decode("ascii"), strict_parsing=True))
    action, version = form.pop("Action"), form.pop("Version")
    params = dict(form, DurationSeconds=int(form["DurationSeconds"])) if "DurationSeconds" in form else form
    validate("sts", action, params)
    unknown = set(form) - set(MODELS["sts"].operation_model(action).input_shape.members)
    by_token = action == "AssumeRoleWithWebIdentity"
    if version != "2011-06-15" or unknown or form["RoleArn"] != OPTIONS["role"] or by_token != ("web" in OPTIONS):
        raise ValueError("%s %s" % (action, form))
    if by_token and (form["WebIdentityToken"] != OPTIONS["web"] or "authorization" in headers):
        raise ValueError("token %s" % form)
    if not by_token:
        verify(url, method, headers, body)
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    (key, (secret, token)), = ROLE.items()
    credentials = {"AccessKeyId": key, "SecretAccessKey": secret, "SessionToken": token, "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
    text = "".join("<%s>%s</%s>" % (name, value, name) for name, value in credentials.items())
    return form, ("<%sResponse><%sResult><Credentials>%s</Credentials></%sResult></%sResponse>" % (action, action, text, action, action)).encode()


def refusal(status, code, message):
    if code.endswith("Exception"):
        return status, {"content-type": "application/x-amz-json-1.1"}, json.dumps({"__type": code, "message": message}).encode()
    text = "<ErrorResponse><Error><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>" % (code, message)
    return status, {"content-type": "text/xml"}, text.encode()


class Aws(stand.Handler):
    def metadata(self, path, headers):
        """The instance metadata service, version 2."""
        if self.command == "PUT" and path == "/latest/api/token" and headers.get("x-aws-ec2-metadata-token-ttl-seconds"):
            return 200, {}, base64.b64encode(b"metadata")
        if headers.get("x-aws-ec2-metadata-token") != base64.b64encode(b"metadata").decode():
            return 401, {}, b""
        roles = "/latest/meta-data/iam/security-credentials/"
        if path == roles:
            return 200, {}, b"mixer-role"
        if path == roles + "mixer-role":
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
            key = {"Code": "Success", "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "Token": TOKEN,
                   "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
            return 200, {"content-type": "text/plain"}, json.dumps(key).encode()
        return 404, {}, b""

    def answer(self, method, path, headers, body):
        if path.startswith("/latest/"):
            return self.metadata(path, headers)
        shown = {key: value for key, value in headers.items() if key not in ("user-agent", "accept")}
        line = {"method": method, "path": path, "host": headers.get("host"), "headers": shown}
        try:
            url = "%s://%s%s" % ("https" if self.is_secure else "http", headers["host"], path)
            if body.startswith(b"Action=AssumeRole"):
                line["role"], content = assume(url, method, headers, body)
                stand.tell(outcome="role", **line)
                return 200, {"content-type": "text/xml"}, content
            _, service = verify(url, method, headers, body)
            if SERVICES[service] == "cloudwatch":
                line["form"] = metrics(body)
            else:
                action = headers["x-amz-target"].removeprefix("Logs_20140328.")
                line["json"] = logs(action, body)
        except Exception as error:
            stand.tell(error=repr(error), **line)
            return refusal(400, "InvalidParameterValue", "not valid")
        if first("busy"):
            stand.tell(outcome="busy", **line)
            return refusal(503, "ServiceUnavailable", "later")
        if first("expired"):
            stand.tell(outcome="expired", **line)
            is_logs = service == "logs"
            return refusal(400 if is_logs else 403, "ExpiredTokenException" if is_logs else "ExpiredToken", "over")
        stand.tell(outcome="taken", **line)
        if service == "monitoring":
            return 200, {"content-type": "text/xml"}, b"<PutMetricDataResponse/>"
        content = {"nextSequenceToken": "tok8"}
        if "logStreamNamePrefix" in line["json"]:
            content = {"logStreams": [{"logStreamName": "st-other", "uploadSequenceToken": "no"},
                                      {"logStreamName": "st", "uploadSequenceToken": SEQUENCE["token"]}]}
        return 200, {"content-type": "application/x-amz-json-1.1"}, json.dumps(content).encode()


stand.certificates(DIRECTORY, ["monitoring.us-east-1.amazonaws.com", "logs.us-east-1.amazonaws.com", "localhost", "127.0.0.1"])
stand.serve(Aws, PORT, DIRECTORY)
