#!/bin/sh
# An HTTPS server has the port of the rendezvous: one that shows a certificate,
# one that is too old for TLS 1.3. Are ddprun and ddpctl with a token told that it
# is no rendezvous, and not that the token differs? And does a launcher go on
# trying, since the rendezvous may still take that server's place?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null && command -v openssl >/dev/null ||
    skip 'needs python3 and openssl'
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>openssl.err ||
    fail "$(cat openssl.err)"
(umask 077 && openssl rand -hex 32 >token)
cat >https.py <<'PY'
import http.server, ssl, sys
server = http.server.HTTPServer(
    ("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
context.maximum_version = getattr(ssl.TLSVersion, sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
PY
why='the program that listens there speaks TLS, but is not a ddprun rendezvous with a token ('
for version in TLSv1_2 TLSv1_3; do
    port=$(free_port)
    background s python3 https.py "$port" $version
    wait_for ready s.out
    began=$(now_ms)
    launch 69 --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_token_file=token --rdzv_conf=is_host=0,join_timeout=1 true
    [ "$(took)" -ge 950 ] || fail "$version: given up after $(took) ms"
    has "port $port was not reached in 1 s: $why.*no other program has the port" \
        it.err
    has_not 'token .*differs' it.err
    ctl 69 "127.0.0.1:$port" --token_file=token top --once
    has "$why" ctl.out
    has_not 'differs' ctl.out
    kill "$(pid_of s)"
    end_of s
done
nothing_left
