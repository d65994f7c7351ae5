/** An entity provider for Backstage's catalog that follows a Concord node. */

export { catalogModuleConcord as default } from './module';
export { ConcordEntityProvider, ProviderOptions } from './provider';
export { Concord, ConcordError, ConcordOptions } from '../../reading/concord';
