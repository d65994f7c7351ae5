// Real OpenID Connect providers, one at each port that an argument names. POST /test/rotate gives
// one new keys, and GET /test/reads tells how often its keys were read. POST /test/redirect?URI lets
// people log in to the clients `console` and, without a secret, `public`: by any name and password.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const SECONDS = { "https://catalog.example": 600, "https://other.example": 600, "https://catalog.example/brief": 1, "https://catalog.example/short": 6 };

function key(kind, alg, options) {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg };
}

function provider(issuer, redirect) {
  const web = (client_id, method, more) => ({
    client_id, token_endpoint_auth_method: method, grant_types: ["authorization_code", "refresh_token"], redirect_uris: [redirect], response_types: ["code"], ...more,
  });
  const consoles = redirect ? [web("console", "client_secret_basic", { client_secret: "very secret: %" }), web("public", "none", {})] : [];
  const client = (client_id) => ({
    client_id, client_secret: "secret", token_endpoint_auth_method: "client_secret_post", grant_types: ["client_credentials"], redirect_uris: [], response_types: [],
  });
  return new Provider(issuer, {
    clients: [client("plant"), client("boss"), ...consoles],
    clientAuthMethods: ["client_secret_basic", "client_secret_post", "none"],
    pkce: { required: () => true },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    scopes: ["catalog.read", "catalog.write"],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: Boolean(redirect) },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          audience: resource,
          scope: "catalog.read catalog.write",
          accessTokenFormat: "jwt",
          accessTokenTTL: SECONDS[resource],
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
    extraTokenClaims: (_, token) => ({ groups: token.clientId === "boss" || token.accountId === "ada" ? ["staff", "admins"] : ["staff"] }),
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
    if (request.url.startsWith("/test/redirect?")) answer = provider(issuer, decodeURIComponent(request.url.split("?")[1]));
    if (request.url.startsWith("/test/")) return response.end(String(reads));
    if (request.url === "/jwks") reads += 1;
    return answer(request, response);
  }).listen(Number(port), "127.0.0.1");
}
