// Worker settings for the sources of model files.
import { isAbsolute } from 'node:path'
import { defineSettings, secret, string, type SettingsOf } from '@muster/host'

const directory = (path: string): string | null => (path === '' || isAbsolute(path) ? null : `"${path}" is not an absolute path`)
const address = (url: string): string | null =>
  url === '' || /^https?:$/.test(URL.parse(url)?.protocol ?? '') ? null : `"${url}" is not a URL: use https://host`

export const modelFileSettings = defineSettings({
  modelDir: string({
    flag: 'model-dir',
    default: '',
    check: directory,
    help: 'directory of this machine whose files models may use (file:///…); without it models may use none',
  }),
  sharedModels: string({
    flag: 'shared-models',
    default: '',
    check: directory,
    help: 'directory, such as a shared volume, whose model files are used in place; nothing is written there',
  }),
  hfEndpoint: string({
    flag: 'hf-endpoint',
    default: 'https://huggingface.co',
    aliases: ['HF_ENDPOINT'],
    check: address,
    help: 'address for hf://: Hugging Face or a mirror',
  }),
  hfToken: secret({ flag: 'hf-token', aliases: ['HF_TOKEN'], help: 'token for private or gated models on Hugging Face' }),
  s3Endpoint: string({
    flag: 's3-endpoint',
    default: '',
    aliases: ['AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'],
    check: address,
    help: 'address for s3:// when it is not Amazon',
  }),
  s3Region: string({ flag: 's3-region', default: 'us-east-1', aliases: ['AWS_REGION', 'AWS_DEFAULT_REGION'], help: 'region for s3://' }),
  s3AccessKeyId: string({
    flag: 's3-access-key-id',
    default: '',
    aliases: ['AWS_ACCESS_KEY_ID'],
    help: 'access key ID for s3://; without it requests are not signed',
  }),
  s3SecretAccessKey: secret({ flag: 's3-secret-access-key', aliases: ['AWS_SECRET_ACCESS_KEY'], help: 'secret access key for s3://' }),
  s3SessionToken: secret({
    flag: 's3-session-token',
    aliases: ['AWS_SESSION_TOKEN'],
    help: 'session token for temporary s3:// credentials',
  }),
})
export type ModelFileSettings = SettingsOf<typeof modelFileSettings>
