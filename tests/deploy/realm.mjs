// Stands for Keycloak with a realm of its: the same paths, clients, secrets, roles and audience.
// realm.mjs PORT REALM CERTIFICATE KEY; what the realm takes from the environment is there, too.
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { Provider } from "oidc-provider";

const [port, file, cert, key] = process.argv.slice(2);
const text = readFileSync(file, "utf8").replace(/\$\{(\w+)\}/g, (_, name) => process.env[name]);
const realm = JSON.parse(text);
const mappers = realm.clientScopes.flatMap((scope) => scope.protocolMappers);
const audience = mappers.map((mapper) => mapper.config["included.custom.audience"]).find(Boolean);
const roles = new Map(realm.users.map((user) => [user.serviceAccountClientId, user.realmRoles]));
const base = `/realms/${realm.realm}`;
const signing = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;

const callback = new Provider(`https://localhost:${port}${base}`, {
  clients: realm.clients
    .filter((client) => client.serviceAccountsEnabled)
    .map((client) => ({
      client_id: client.clientId,
      client_secret: client.secret,
      token_endpoint_auth_method: "client_secret_basic",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    })),
  routes: { token: "/protocol/openid-connect/token", jwks: "/protocol/openid-connect/certs" },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      getResourceServerInfo: () => ({
        audience,
        scope: "",
        accessTokenFormat: "jwt",
        accessTokenTTL: realm.accessTokenLifespan,
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  extraTokenClaims: (_, token) => ({ realm_access: { roles: roles.get(token.clientId) } }),
  jwks: { keys: [{ ...signing.export({ format: "jwk" }), kid: "one", use: "sig", alg: "RS256" }] },
}).callback();

createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
  if (!request.url.startsWith(`${base}/`)) return response.writeHead(404).end();
  request.originalUrl = request.url;
  request.url = request.url.slice(base.length);
  return callback(request, response);
}).listen(Number(port), "127.0.0.1");
