// Real OpenID Connect providers, one at each port that an argument names. POST /test/rotate gives
// one new keys, and GET /test/reads tells how often its keys were read.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const SECONDS = { "https://catalog.example": 600, "https://other.example": 600, "https://catalog.example/brief": 1 };

function key(kind, alg, options) {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg };
}

function provider(issuer) {
  const client = (client_id) => ({
    client_id, client_secret: "secret", token_endpoint_auth_method: "client_secret_post", grant_types: ["client_credentials"], redirect_uris: [], response_types: [],
  });
  return new Provider(issuer, {
    clients: [client("plant"), client("boss")],
    clientAuthMethods: ["client_secret_post"],
    scopes: ["catalog.read", "catalog.write"],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          audience: resource,
          scope: "catalog.read catalog.write",
          accessTokenFormat: "jwt",
          accessTokenTTL: SECONDS[resource],
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
    extraTokenClaims: (_, token) => ({ groups: token.clientId === "boss" ? ["staff", "admins"] : ["staff"] }),
    jwks: {
      keys: [key("rsa", "RS256", { modulusLength: 2048 }), key("ec", "ES256", { namedCurve: "P-256" })],
    },
  }).callback();
}

for (const port of process.argv.slice(2)) {
  const issuer = `http://127.0.0.1:${port}`;
  let reads = 0;
  let answer = provider(issuer);
  createServer((request, response) => {
    if (request.url === "/test/rotate") answer = provider(issuer);
    if (request.url.startsWith("/test/")) return response.end(String(reads));
    if (request.url === "/jwks") reads += 1;
    return answer(request, response);
  }).listen(Number(port), "127.0.0.1");
}
