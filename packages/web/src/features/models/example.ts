// Where a new model begins: something that is valid as it is, with a word on each part.

export const exampleConfig = `# A name that is not taken yet: requests ask for it as "model".
name: my-model

# What serves it; it is installed where it is needed.
backend: llama

# "model" names the file to load; the others are defaults of requests.
parameters:
  model: model.gguf
  temperature: 0.2

# In tokens; the backend's own when it is left out.
context_size: 4096

# Where its files come from: https://, hf://owner/repo/file, oci://, s3:// or file:///.
# With a sha256 a file is checked, and fetched once for the whole cluster.
files:
  - uri: "hf://TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF/tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf"
    filename: model.gguf

# Where and how often it runs. It is loaded by its first request, unless a minimum is kept up.
scheduling:
  min_replicas: 0
  max_replicas: 1
`
