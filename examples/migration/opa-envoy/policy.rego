package envoy.authz

import input.attributes.request.http as http

default allow := {"allowed": false, "http_status": 403}

claims := input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload

hops := split(http.headers["x-forwarded-for"], ",")

client := trim_space(hops[count(hops) - 2])

blocked if net.cidr_contains("203.0.113.0/24", client)

permitted if {
	http.method in ["GET", "HEAD"]
	input.parsed_path[0] in ["", "catalog"]
}

permitted if input.parsed_path == ["cart", claims.sub]

permitted if {
	input.parsed_path[0] == "admin"
	claims.role == "admin"
	not claims.suspended
}

allow := {"allowed": true, "headers": {"x-user": claims.sub}} if {
	permitted
	not blocked
}

allow := {"allowed": true} if {
	permitted
	not claims
	not blocked
}

allow := {"allowed": false, "http_status": 401} if {
	not permitted
	not claims
	not blocked
}
