// Backstage's own catalog with the provider, over HTTP, until the standard input ends.
// Arguments: the URL of a node, and that of a PostgreSQL database.
import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/backstage/`);
const { mockServices, startTestBackend } = require('@backstage/backend-test-utils');
const { databaseServiceFactory } = require('@backstage/backend-defaults/database');
const { schedulerServiceFactory } = require('@backstage/backend-defaults/scheduler');

const [url, connection] = process.argv.slice(2);
const data = {
  backend: { database: { client: 'pg', connection, pluginDivisionMode: 'schema' } },
  catalog: {
    providers: {
      concord: { node: { url, schedule: { frequency: { seconds: 1 }, timeout: { minutes: 30 } } } },
    },
  },
};
const backend = await startTestBackend({
  features: [
    mockServices.rootConfig.factory({ data }),
    mockServices.rootLogger.factory({ level: 'info' }),
    databaseServiceFactory,
    schedulerServiceFactory,
    import(require.resolve('@backstage/plugin-catalog-backend')),
    import(require.resolve('./dist/backstage/src/index.js')),
  ],
});
console.log(`listens on ${backend.server.port()}`);
process.stdin.resume();
process.stdin.on('end', async () => {
  await backend.stop();
  process.exit(0);
});
