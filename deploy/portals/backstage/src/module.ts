/** The module of Backstage's catalog: a provider for each node that the configuration names. */

import {
  coreServices,
  createBackendModule,
  LoggerService,
  readSchedulerServiceTaskScheduleDefinitionFromConfig,
  SchedulerService,
  SchedulerServiceTaskScheduleDefinition,
} from '@backstage/backend-plugin-api';
import type { Config } from '@backstage/config';
import { catalogProcessingExtensionPoint } from '@backstage/plugin-catalog-node';
import { durationToMilliseconds, HumanDuration } from '@backstage/types';
import { Concord } from '../../reading/concord';
import { ConcordEntityProvider } from './provider';

const PATH = 'catalog.providers.concord';
const SCHEDULE: SchedulerServiceTaskScheduleDefinition & { timeout: HumanDuration } = {
  frequency: { seconds: 30 },
  timeout: { hours: 1 },
};
/** A turn ends before the scheduler would take it for dead. */
const SHARE_OF_TIMEOUT = 0.9;

export const catalogModuleConcord = createBackendModule({
  pluginId: 'catalog',
  moduleId: 'concord-entity-provider',
  register(env) {
    env.registerInit({
      deps: {
        catalog: catalogProcessingExtensionPoint,
        config: coreServices.rootConfig,
        logger: coreServices.logger,
        scheduler: coreServices.scheduler,
      },
      async init({ catalog, config, logger, scheduler }) {
        const nodes = config.getOptionalConfig(PATH);
        if (!nodes) logger.warn(`no Concord node is followed: ${PATH} is not configured`);
        for (const id of nodes?.keys() ?? []) {
          catalog.addEntityProvider(providerOf(id, nodes!.getConfig(id), logger, scheduler));
        }
      },
    });
  },
});

function providerOf(
  id: string,
  config: Config,
  logger: LoggerService,
  scheduler: SchedulerService,
): ConcordEntityProvider {
  const schedule = config.has('schedule')
    ? readSchedulerServiceTaskScheduleDefinitionFromConfig(config.getConfig('schedule'))
    : SCHEDULE;
  const timeout = schedule.timeout as HumanDuration;
  const owners = config.getOptionalConfigArray('owners') ?? [];
  return new ConcordEntityProvider({
    id,
    concord: new Concord({
      url: config.getString('url'),
      token: config.getOptionalString('token'),
    }),
    namespace: config.getOptionalString('namespace') ?? 'default',
    owners: new Map(owners.map(each => [each.getString('authority'), each.getString('owner')])),
    logger,
    schedule: scheduler.createScheduledTaskRunner(schedule),
    turnSeconds: (durationToMilliseconds(timeout) / 1000) * SHARE_OF_TIMEOUT,
  });
}
