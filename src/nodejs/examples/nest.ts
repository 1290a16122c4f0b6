// Jobs of @nestjs/schedule on several hosts: each runs on one of them.
//
// Run it on each: DLOCK_NODES=redis://localhost node nest.js

import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Client, DoneError } from 'dlock';

const client = new Client();

/**
 * Runs a method on one of the hosts that call it within this time. It stands below `@Cron`, which does not tell the fire
 * time, so half of the period is a good window.
 */
function OncePer(window: number) {
  return (target: object, name: string, method: TypedPropertyDescriptor<() => Promise<void>>) => {
    const work = method.value;
    const lock = client.lock(`${target.constructor.name}.${name}`);
    method.value = async function () {
      try {
        await lock.runOnce(window, () => work?.call(this));
      } catch (error) {
        if (!(error instanceof DoneError)) throw error;
      }
    };
  };
}

@Injectable()
class Reports {
  @Cron(process.env.CRON ?? '0 3 * * *')
  @OncePer(Number(process.env.WINDOW ?? 12 * 3_600_000))
  async nightly(): Promise<void> {
    console.log('reports', Date.now());
  }
}

@Module({ imports: [ScheduleModule.forRoot()], providers: [Reports] })
class Application {}

await (await NestFactory.createApplicationContext(Application, { logger: ['error'] })).init();
