import type { SchedulerServiceTaskScheduleDefinitionConfig } from '@backstage/backend-plugin-api';

export interface Config {
  catalog?: {
    providers?: {
      /** Concord nodes that the catalog follows, by an id that names the provider. */
      concord?: {
        [id: string]: {
          /** The base URL of the node. */
          url: string;
          /**
           * A token that may read the node.
           * @visibility secret
           */
          token?: string;
          /** The namespace of the entities; `default` if it is not given. */
          namespace?: string;
          /** Owners of what an authority owns, instead of a group that is made for it. */
          owners?: Array<{ authority: string; owner: string }>;
          /** By default a turn lasts up to an hour, and the next one begins within 30 seconds. */
          schedule?: SchedulerServiceTaskScheduleDefinitionConfig;
        };
      };
    };
  };
}
