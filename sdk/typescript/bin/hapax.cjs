#!/usr/bin/env node
'use strict'

// Starts the program of this platform, which came as an optional dependency.
const { spawn } = require('node:child_process')
const { constants } = require('node:os')

const packageName = `hapax-${process.platform}-${process.arch}`

function findProgram() {
  try {
    return require.resolve(`${packageName}/bin/hapax`)
  } catch {
    console.error(
      `hapax: there is no program for ${process.platform} on ${process.arch}, or ${packageName} was not installed ` +
        '(npm install --omit=optional leaves it out). Build it from source instead: see docs/install.md',
    )
    process.exit(1)
  }
}

const child = spawn(findProgram(), process.argv.slice(2), { stdio: 'inherit' })

// The program ends in good order by itself. This process only passes signals on, and waits.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal))
}
child.on('error', (error) => {
  console.error(`hapax: it cannot be started: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  process.exit(signal ? 128 + constants.signals[signal] : code)
})
