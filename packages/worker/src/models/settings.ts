// The settings of a worker that say where files of models may come from.
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
    help: 'the directory of this machine that models may name files of (file:///…); without it they may name none',
  }),
  sharedModels: string({
    flag: 'shared-models',
    default: '',
    check: directory,
    help: 'a directory, such as a volume of several machines, whose files models are served from where they are; nothing is written there',
  }),
  hfEndpoint: string({
    flag: 'hf-endpoint',
    default: 'https://huggingface.co',
    aliases: ['HF_ENDPOINT'],
    check: address,
    help: 'where hf:// is: Hugging Face, or a mirror of it',
  }),
  hfToken: secret({ flag: 'hf-token', aliases: ['HF_TOKEN'], help: 'for models of Hugging Face that not everybody may read' }),
  s3Endpoint: string({
    flag: 's3-endpoint',
    default: '',
    aliases: ['AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'],
    check: address,
    help: 'where s3:// is, when it is not at Amazon',
  }),
  s3Region: string({ flag: 's3-region', default: 'us-east-1', aliases: ['AWS_REGION', 'AWS_DEFAULT_REGION'], help: 'the region of s3://' }),
  s3AccessKeyId: string({
    flag: 's3-access-key-id',
    default: '',
    aliases: ['AWS_ACCESS_KEY_ID'],
    help: 'whose secret key s3:// is asked with; without it requests are not signed',
  }),
  s3SecretAccessKey: secret({ flag: 's3-secret-access-key', aliases: ['AWS_SECRET_ACCESS_KEY'], help: 'its secret key' }),
  s3SessionToken: secret({
    flag: 's3-session-token',
    aliases: ['AWS_SESSION_TOKEN'],
    help: 'its session token, when it is a temporary one',
  }),
})
export type ModelFileSettings = SettingsOf<typeof modelFileSettings>
