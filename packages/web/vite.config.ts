// Configuration of the build (build.ts) and of the development server (`npm run dev:web`, next to a controller).
import tailwindcss from '@tailwindcss/vite'
import { defineConfig } from 'vite'

const controller = process.env['MUSTER_URL'] ?? 'http://127.0.0.1:8080'
const proxied = { target: controller, changeOrigin: true, headers: { origin: controller } }

export default defineConfig(({ command }) => {
  // Tests have NODE_ENV=test, with which React would build its development version.
  if (command === 'build') process.env['NODE_ENV'] = 'production'
  return {
    root: import.meta.dirname,
    plugins: [tailwindcss()],
    build: {
      emptyOutDir: true,
      // Nothing is inlined: the content security policy allows files of the page's own origin only.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      target: 'es2023',
      // The first versions with `light-dark()`.
      cssTarget: ['chrome123', 'edge123', 'firefox120', 'safari17.5'],
      rolldownOptions: {
        // "use client" concerns server rendering, which is not used.
        onLog: (level, log, handle) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && handle(level, log),
      },
    },
    server: { proxy: { '/api': proxied, '/v1': proxied, '/login': proxied } },
  }
})
